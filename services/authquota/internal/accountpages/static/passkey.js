// Asks the browser for a passkey when a form with data-passkey is sent, and sends what it answers with the form. The form stays hidden
// where the browser has no passkeys: everything can be done without them.
const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

function asked(form) {
  const options = JSON.parse(form.dataset.options);
  options.challenge = bytes(options.challenge);
  if (options.user) options.user.id = bytes(options.user.id);
  for (const list of [options.allowCredentials, options.excludeCredentials]) {
    for (const credential of list ?? []) credential.id = bytes(credential.id);
  }
  return { publicKey: options };
}

function answer(credential) {
  const from = credential.response;
  const response = { clientDataJSON: text(from.clientDataJSON) };
  if (from.attestationObject) {
    response.attestationObject = text(from.attestationObject);
    response.transports = from.getTransports?.() ?? [];
  } else {
    response.authenticatorData = text(from.authenticatorData);
    response.signature = text(from.signature);
    if (from.userHandle) response.userHandle = text(from.userHandle);
  }
  return JSON.stringify({
    id: credential.id, rawId: text(credential.rawId), type: credential.type,
    authenticatorAttachment: credential.authenticatorAttachment ?? undefined,
    clientExtensionResults: credential.getClientExtensionResults(), response,
  });
}

const words = {
  InvalidStateError: "This device has a passkey of this account already.",
  NotAllowedError: "No passkey was used. Try again when you are ready.",
};

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!window.PublicKeyCredential) continue;
  form.hidden = false;
  for (const other of document.querySelectorAll("[data-no-passkeys]")) other.hidden = true;
  const wrong = form.querySelector("[role=status]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    try {
      const create = form.dataset.passkey === "create";
      const credential = create ? await navigator.credentials.create(asked(form)) : await navigator.credentials.get(asked(form));
      form.elements.answer.value = answer(credential);
      form.submit();
    } catch (problem) {
      wrong.textContent = words[problem.name] ?? "The passkey could not be used here.";
    }
  });
}
