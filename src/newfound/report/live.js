// A page whose classes can be edited: every edit goes to the program that serves the page, which draws it anew.
const said = document.getElementById("said"), into = document.getElementById("into"), picked = new Set();

async function edit(what) {
  const answer = await fetch("edit", {method: "POST", body: JSON.stringify(what)}).catch(() => null);
  if (answer?.ok) return location.reload();
  said.textContent = answer ? await answer.text() : "nobody answers; start newfound review again";
}

function entered(field, act) {
  field.addEventListener("keydown", ({key}) => {
    const text = field.value.trim().normalize("NFC");
    if (key === "Enter" && text) act(text);
  });
}

for (const field of document.querySelectorAll("input[data-class]")) entered(field, name => {
  const own = field.dataset.class;
  if (name === own) return;
  edit(names.includes(name) ? {verb: "merge", into: name, others: [own]} : {verb: "rename", names: {[own]: name}});
});
for (const button of document.querySelectorAll("button[data-split]"))
  button.addEventListener("click", () => edit({verb: "split", name: button.dataset.split}));
document.getElementById("undo").addEventListener("click", () => edit({verb: "undo"}));
entered(into, name => edit({verb: "move", into: name, rows: [...picked]}));

document.addEventListener("click", ({target}) => {
  if (!target.matches?.("img[data-row]")) return;
  const row = Number(target.dataset.row);
  picked.delete(row) || picked.add(row);
  for (const each of document.querySelectorAll(`img[data-row="${row}"]`)) each.classList.toggle("picked", picked.has(row));
  into.hidden = !picked.size;
  document.getElementById("picked").textContent = picked.size ? `${picked.size} picked` : "Click images to pick some.";
});

for (const all of document.querySelectorAll("details[data-all]")) all.addEventListener("toggle", async () => {
  const strip = all.querySelector(".strip");
  if (!all.open || strip.children.length) return;
  const answer = await fetch(`class/${all.dataset.all}`);
  for (const {row, file} of await answer.json()) {
    const image = new Image();
    Object.assign(image, {loading: "lazy", src: `image/${row}`, title: file, alt: file});
    image.dataset.row = row;
    image.className = document.querySelector("img.tiny") ? "tiny" : "";
    image.classList.toggle("picked", picked.has(row));
    strip.append(image);
  }
});
