// A page whose classes can be edited: every edit goes to the program that serves the page, which draws it anew.
// What was picked and typed outlives that.
const said = document.getElementById("said"), into = document.getElementById("into");
const fields = [...document.querySelectorAll("input[data-class]")];
const kept = what => JSON.parse(sessionStorage.getItem(what + location.pathname) ?? "[]");
const keep = (what, values) => sessionStorage.setItem(what + location.pathname, JSON.stringify(values));
const picked = new Set(kept("picked"));
let busy = false;

function show(row) {
  for (const each of document.querySelectorAll(`img[data-row="${row}"]`)) each.classList.toggle("picked", picked.has(row));
  into.hidden = !picked.size;
  document.getElementById("picked").textContent = picked.size ? `${picked.size} picked` : "Click images to pick some.";
}

async function edit(what) {
  if (busy) return;
  busy = true;
  said.textContent = "…";
  const answer = await fetch("edit", {method: "POST", body: JSON.stringify({...what, seen})}).catch(() => null);
  busy = false;
  said.textContent = answer ? await answer.text() : "nobody answers; start newfound review again";
  if (!answer?.ok) return;
  const done = [...Object.keys(what.names ?? {}), ...what.others ?? []];
  keep("picked", what.verb === "move" ? [] : [...picked]);
  keep("typed", fields.map(each => [each.dataset.class, each.value]).filter(([own]) => !done.includes(own)));
  location.reload();
}

function entered(field, act) {
  field.addEventListener("keydown", ({key, isComposing}) => {
    const text = field.value.trim().normalize("NFC");
    if (key === "Enter" && !isComposing && text) act(text);
  });
}

for (const field of fields) entered(field, name => {
  const own = field.dataset.class, same = names.find(each => each.normalize("NFC") === name);
  if (same === own) return;
  edit(same ? {verb: "merge", into: same, others: [own]} : {verb: "rename", names: {[own]: name}});
});
for (const button of document.querySelectorAll("button[data-split]"))
  button.addEventListener("click", () => edit({verb: "split", name: button.dataset.split}));
document.getElementById("undo").addEventListener("click", () => edit({verb: "undo"}));
entered(into, name => edit({verb: "move", into: name, rows: [...picked]}));

document.addEventListener("click", ({target}) => {
  if (!target.matches?.("img[data-row]")) return;
  const row = Number(target.dataset.row);
  picked.delete(row) || picked.add(row);
  show(row);
});

for (const all of document.querySelectorAll("details[data-all]")) all.addEventListener("toggle", async () => {
  if (all.dataset.asked) return;
  all.dataset.asked = true;
  const answer = await fetch(`class/${all.dataset.all}`).catch(() => null);
  if (!answer?.ok) return said.textContent = "the images cannot be had; load the page anew";
  for (const {row, file} of await answer.json()) {
    const image = new Image();
    Object.assign(image, {loading: "lazy", src: `image/${row}`, title: file, alt: file});
    image.dataset.row = row;
    image.className = document.querySelector("img.tiny") ? "tiny" : "";
    image.classList.toggle("picked", picked.has(row));
    all.querySelector(".strip").append(image);
  }
});

for (const [own, value] of kept("typed"))
  for (const field of fields) if (field.dataset.class === own) field.value = value;
picked.forEach(show);
