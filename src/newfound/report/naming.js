// What to type at a prompt so that classes get the names that were typed in; those of one name become one class.
function commands(run, known, typed) {
  const wanted = new Map();
  for (const [own, name] of typed) {
    const target = name.trim() || own;
    wanted.set(target, [...(wanted.get(target) ?? []), own]);
  }
  const merges = [], renames = [];
  for (const [name, classes] of wanted) {
    const stays = known.includes(name) || classes.includes(name) ? name : classes[0];
    const others = classes.filter(each => each !== stays);
    if (others.length) merges.push(["merge", run, stays, ...others]);
    if (stays !== name) renames.push(`${stays}=${name}`);
  }
  if (renames.length) merges.push(["rename", run, ...renames]);
  return merges.map(words => ["newfound", ...words].map(quoted).join(" ")).join("\n");
}

function quoted(word) {
  return /^[\w.,\/:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
