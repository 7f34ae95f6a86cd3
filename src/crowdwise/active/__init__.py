"""Which item to send to whom next, and when to stop."""
