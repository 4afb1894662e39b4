// The live page: every edit is sent to the server, then the page is reloaded.
// The selection and unsent names survive the reload.
const message = document.getElementById("message"), into = document.getElementById("into");
const fields = [...document.querySelectorAll("input[data-class]")];
const load = key => JSON.parse(sessionStorage.getItem(key + location.pathname) ?? "[]");
const store = (key, values) => sessionStorage.setItem(key + location.pathname, JSON.stringify(values));
const selected = new Set(load("selected"));
let busy = false;

function show(row) {
  for (const each of document.querySelectorAll(`img[data-row="${row}"]`)) each.classList.toggle("selected", selected.has(row));
  into.hidden = !selected.size;
  document.getElementById("selected").textContent = selected.size ? `${selected.size} selected` : "Click images to select them.";
}

async function edit(change) {
  if (busy) return;
  busy = true;
  message.textContent = "…";
  const answer = await fetch("edit", {method: "POST", body: JSON.stringify({...change, seen})}).catch(() => null);
  busy = false;
  message.textContent = answer ? await answer.text() : "No answer. Is newfound review still running?";
  if (!answer?.ok) return;
  const done = [...Object.keys(change.names ?? {}), ...change.others ?? []];
  store("selected", change.verb === "move" ? [] : [...selected]);
  store("typed", fields.map(each => [each.dataset.class, each.value]).filter(([own]) => !done.includes(own)));
  location.reload();
}

function onEnter(field, act) {
  field.addEventListener("keydown", ({key, isComposing}) => {
    const text = field.value.trim().normalize("NFC");
    if (key === "Enter" && !isComposing && text) act(text);
  });
}

for (const field of fields) onEnter(field, name => {
  const own = field.dataset.class, same = names.find(each => each.normalize("NFC") === name);
  if (same === own) return;
  edit(same ? {verb: "merge", into: same, others: [own]} : {verb: "rename", names: {[own]: name}});
});
for (const button of document.querySelectorAll("button[data-split]"))
  button.addEventListener("click", () => edit({verb: "split", name: button.dataset.split}));
document.getElementById("accept")?.addEventListener("click", () => edit({verb: "accept"}));
document.getElementById("undo").addEventListener("click", () => edit({verb: "undo"}));
onEnter(into, name => edit({verb: "move", into: name, rows: [...selected]}));

document.addEventListener("click", ({target}) => {
  if (!target.matches?.("img[data-row]")) return;
  const row = Number(target.dataset.row);
  selected.delete(row) || selected.add(row);
  show(row);
});

for (const all of document.querySelectorAll("details[data-all]")) all.addEventListener("toggle", async () => {
  if (all.dataset.loaded) return;
  all.dataset.loaded = true;
  const answer = await fetch(`class/${all.dataset.all}`).catch(() => null);
  if (!answer?.ok) return message.textContent = "Cannot load the images. Reload the page.";
  for (const {row, file} of await answer.json()) {
    const image = new Image();
    Object.assign(image, {loading: "lazy", src: `image/${row}`, title: file, alt: file});
    image.dataset.row = row;
    image.className = document.querySelector("img.tiny") ? "tiny" : "";
    image.classList.toggle("selected", selected.has(row));
    all.querySelector(".strip").append(image);
  }
});

for (const [own, value] of load("typed"))
  for (const field of fields) if (field.dataset.class === own) field.value = value;
selected.forEach(show);
