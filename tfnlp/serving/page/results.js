// What each action found, as elements. Texts are set as text, never as HTML.

export function element(name, properties = {}, children = []) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const paragraph = (text, className = "") => element("p", { textContent: text, className });
const rounded = (x) => (x === null || x === undefined ? "?" : Number(x).toFixed(3));

function bars(pairs) {
  return element("div", { className: "scores" }, pairs.flatMap(([name, share]) => {
    const fill = element("span");
    fill.style.width = `${100 * Math.max(0, Math.min(1, share ?? 0))}%`;
    return [
      element("span", { textContent: name }),
      element("span", { className: "bar" }, [fill]),
      element("span", { className: "number", textContent: rounded(share) }),
    ];
  }));
}

const descending = (shares) => Object.entries(shares).sort((one, other) => other[1] - one[1]);
const given = (row) => Object.values(row).flat().map((text) => paragraph(String(text), "given"));

function classified(row, found) {
  return [...given(row), element("p", {}, [element("strong", { textContent: found.label })]), bars(descending(found.probabilities))];
}

function labelled(row, found) {
  const text = found.labels.length ? found.labels.join(", ") : "no label";
  return [...given(row), element("p", {}, [element("strong", { textContent: text })]), bars(descending(found.probabilities))];
}

function compared(row, found) {
  return [...given(row), element("p", {}, [element("strong", { textContent: `score ${rounded(found.score)}` })])];
}

function picked(row, found) {
  return [
    paragraph(row.text, "given"),
    element("p", {}, [element("strong", { textContent: found.text })]),
    bars(row.choices.map((text, i) => [text, found.probabilities[i]])),
  ];
}

function answered(row, found) {
  const letters = Array.from(row.context); // places count characters, not UTF-16 units
  const context = element("p");
  if (found.start === null) {
    context.textContent = row.context;
  } else {
    const part = (from, to) => letters.slice(from, to).join("");
    const mark = element("mark", { textContent: part(found.start, found.end) });
    context.append(part(0, found.start), mark, part(found.end));
  }
  const others = found.answers.map((one) => element("li", { textContent: `${one.text} (${rounded(one.score)})` }));
  const text = found.start === null ? "The text has no answer." : found.answer;
  return [paragraph(row.question, "given"), element("p", {}, [element("strong", { textContent: text })]), context, element("ol", {}, others)];
}

function hue(name) {
  let sum = 7;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 360;
  return sum;
}

function tagged(row, found) {
  const letters = Array.from(row.text); // places count characters, not UTF-16 units
  const part = (start, end) => letters.slice(start, end).join("");
  const line = element("p", { className: "tagged" });
  let before = 0;
  for (const [start, end, kind] of found.spans) {
    const inside = found.probabilities.filter((_, i) => found.starts[i] >= start && found.ends[i] <= end);
    const title = `probability ${rounded(Math.min(...inside))}`;
    const box = element("span", { className: "tag", title }, [part(start, end), element("small", { textContent: kind })]);
    box.style.setProperty("--hue", hue(kind));
    line.append(part(before, start), box);
    before = end;
  }
  line.append(part(before));
  return [line];
}

// Mentions with the number of their cluster; where they nest, the inner one.
function clustered(row, found) {
  const letters = Array.from(row.text); // places count characters, not UTF-16 units
  const mentions = found.clusters.flatMap((places, number) => places.map(([start, end]) => ({ start, end, number })));
  mentions.sort((one, other) => (other.end - other.start) - (one.end - one.start));
  const owner = letters.map(() => null);
  for (const mention of mentions) owner.fill(mention, mention.start, mention.end);
  const line = element("p", { className: "tagged" });
  for (let start = 0, end = 0; start < letters.length; start = end) {
    while (end < letters.length && owner[end] === owner[start]) end += 1;
    const text = letters.slice(start, end).join("");
    if (owner[start] === null) {
      line.append(text);
      continue;
    }
    const number = owner[start].number + 1;
    const box = element("span", { className: "tag" }, [text, element("small", { textContent: number })]);
    box.style.setProperty("--hue", (number * 67) % 360);
    line.append(box);
  }
  return [line];
}

function filled(row, found) {
  const masks = found.masks.map((tokens) => bars(tokens.map((one) => [one.token, one.probability])));
  return [paragraph(row.text, "given"), element("p", {}, [element("strong", { textContent: found.text })]), ...masks];
}

function written(row, found) {
  const line = element("p", {}, [element("span", { className: "given", textContent: row.prompt })]);
  const after = found.text.startsWith(row.prompt) ? found.text.slice(row.prompt.length) : ` ${found.continuation ?? found.text}`;
  line.append(after);
  return [line];
}

function attention(found) {
  const cell = (tag, text) => element(tag, { textContent: text });
  const head = element("tr", {}, [cell("td", ""), ...found.source_tokens.map((token) => cell("th", token))]);
  const rows = found.target_tokens.map((token, t) => {
    const cells = found.source_tokens.map((source, s) => {
      const weight = found.attention[t][s] ?? 0;
      const made = element("td", { title: `${token} ← ${source}: ${rounded(weight)}` });
      made.style.background = `rgb(63 81 181 / ${weight})`;
      return made;
    });
    return element("tr", {}, [cell("th", token), ...cells]);
  });
  const table = element("table", { className: "attention" }, [
    element("caption", { textContent: "Rows: the translation; columns: the sentence" }),
    element("thead", {}, [head]), element("tbody", {}, rows),
  ]);
  return element("div", { className: "wide", tabIndex: 0 }, [table]);
}

function translated(row, found) {
  const parts = [paragraph(row.text, "given"), element("p", {}, [element("strong", { textContent: found.translation })])];
  return found.attention ? [...parts, attention(found)] : parts;
}

function near(row, found) {
  const lead = row.query ?? row.word;
  return [paragraph(lead, "given"), bars(found.neighbours.map((one) => [one.text, one.score]))];
}

const HOW = {
  classify: classified, labels: labelled, similarity: compared, choose: picked, answer: answered,
  tag: tagged, roles: tagged, coref: clustered, fill: filled, write: written, translate: translated,
  neighbours: near, words: near, search: near,
};

// The result of one row of a request.
export function show(name, row, found) {
  const raw = () => [element("pre", { textContent: JSON.stringify(found, null, 1) })];
  return element("article", {}, (HOW[name] ?? raw)(row, found));
}
