"""Label Studio beside a live campaign: votes by webhook, the queue and the overlap of its tasks by what is known of them.

`webhooks` makes deliveries of what Label Studio sends, `api` calls it, `link` registers this service with a project, `reading`
and `writing` are the two directions, `mirror` has the project as it is known here, `board` says what its tasks should look
like, `bridge` keeps both sides the same, `backend` has the routes and `command` the command.
"""
