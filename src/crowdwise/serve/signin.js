"use strict";
// A link with a token behind # signs in whoever opens it, also where somebody else is signed in; it is never sent in an address.
(() => {
  function signIn() {
    const token = location.hash.slice(1);
    if (!/^[\w-]{20,200}$/.test(token)) return;
    history.replaceState(null, "", location.pathname);
    // The other script of this page is not to ask or answer for whoever was here before.
    document.body.dataset.leaving = "";
    const form = document.createElement("form");
    form.method = "post";
    form.action = "/signin";
    const field = document.createElement("input");
    field.type = "hidden";
    field.name = "token";
    field.value = token;
    form.append(field);
    document.body.append(form);
    form.submit();
  }
  // In a page that is open the address changes without loading anything.
  addEventListener("hashchange", signIn);
  signIn();
})();
