// Files that are uploaded: their rows, and predictions as a table and as files again.
import { cells, element, rounded } from "./results.js";

const SHOWN = 100; // rows of the table
const AT_ONCE = 64; // texts of a request: so that one sees that it goes on

// The rows of delimited text: quotes hold separators, line ends and, twice, quotes.
function delimited(text, separator) {
  const rows = [];
  let row = [], cell = "", quoted = false;
  const end = () => { row.push(cell); cell = ""; };
  for (let i = 0; i < text.length; i += 1) {
    const letter = text[i];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[i + 1] === '"') { cell += letter; i += 1; } else quoted = false;
    } else if (letter === '"' && cell === "") quoted = true;
    else if (letter === separator) end();
    else if (letter === "\n" || letter === "\r") {
      if (letter === "\r" && text[i + 1] === "\n") i += 1;
      end();
      rows.push(row);
      row = [];
    } else cell += letter;
  }
  if (cell !== "" || row.length) { end(); rows.push(row); }
  return rows.filter((one) => one.some((value) => value.trim()));
}

function records(name, text, separator) {
  const [head = [], ...rows] = delimited(text, separator), names = head.map((one) => one.trim());
  return rows.map((row, i) => {
    if (row.length !== names.length) throw new Error(`${name}, row ${i + 1} has ${row.length} cells; its first line has ${names.length}`);
    return Object.fromEntries(names.map((one, n) => [one, row[n]]));
  });
}

function objects(name, text) {
  return text.split("\n").map((line, i) => {
    if (!line.trim()) return null;
    try {
      return JSON.parse(line);
    } catch {
      throw new Error(`${name}, line ${i + 1} is not JSON`);
    }
  }).filter((one) => one !== null);
}

// The value of a field; a number may be written as text.
function valueOf(row, field) {
  const value = row[field.name];
  return field.kind === "number" && typeof value === "string" && value.trim() ? Number(value) : value;
}

// The rows of a file as instances of an action.
export async function rowsOf(file, action, most) {
  if (file.size > most) throw new Error(`${file.name} has ${file.size.toLocaleString("en")} bytes; at most ${most.toLocaleString("en")} are read`);
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not text in UTF-8`);
  }
  const kind = file.name.toLowerCase().split(".").pop(), names = action.fields.map((field) => field.name);
  let rows;
  if (kind === "csv" || kind === "tsv") rows = records(file.name, text, kind === "csv" ? "," : "\t");
  else if (kind === "jsonl") rows = objects(file.name, text);
  else if (names.length === 1) rows = text.split(/\r?\n/).filter((line) => line.trim());
  else throw new Error(`${file.name}: lines have one text each; give a .csv or .jsonl file with ${names.join(", ")}`);
  if (!rows.length) throw new Error(`${file.name} has no rows`);
  return rows.map((row, i) => {
    if (typeof row === "string" && names.length === 1) return { [names[0]]: row };
    const missing = names.find((name) => row?.[name] === undefined);
    if (missing === undefined) return Object.fromEntries(action.fields.map((field) => [field.name, valueOf(row, field)]));
    const there = Object.keys(Object(row)).join(", ") || "nothing";
    throw new Error(`${file.name}, row ${i + 1} has no ${missing}; it has ${there}`);
  });
}

// The rows in parts that a request may have.
export function parts(rows, limits) {
  const found = [], most = Math.min(AT_ONCE, limits.max_texts);
  let part = [], texts = 0, bytes = 0;
  for (const row of rows) {
    const count = Object.values(row).flat().length, size = new Blob([JSON.stringify(row)]).size + 1;
    if (part.length && (texts + count > most || bytes + size > limits.max_bytes / 2)) {
      found.push(part);
      [part, texts, bytes] = [[], 0, 0];
    }
    part.push(row);
    texts += count;
    bytes += size;
  }
  return [...found, part];
}

// Cells of predictions, a row each.
export const tableOf = (action, rows, predictions) => predictions.map((found, i) => cells(action, rows[i], found));

export function tsv(table) {
  const plain = (value) => String(value ?? "").replace(/\s+/g, " ");
  return [Object.keys(table[0]), ...table.map(Object.values)].map((row) => row.map(plain).join("\t")).join("\n");
}

function csv(table) {
  const quoted = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
  return [Object.keys(table[0]), ...table.map(Object.values)].map((row) => row.map(quoted).join(",")).join("\r\n");
}

function saving(name, type, text) {
  const made = element("button", { type: "button", textContent: `Download .${name.split(".").pop()}` });
  made.addEventListener("click", () => {
    const href = URL.createObjectURL(new Blob([text()], { type }));
    element("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
  });
  return made;
}

// The predictions of a file as a table, its first rows, and as files.
export function tabled(action, rows, predictions, file) {
  const table = tableOf(action, rows, predictions), stem = file.replace(/\.[^.]*$/, "");
  const cell = (value) => element("td", { textContent: typeof value === "number" && !Number.isInteger(value) ? rounded(value) : value ?? "", dir: "auto" });
  const head = element("tr", {}, Object.keys(table[0]).map((name) => element("th", { textContent: name })));
  const body = table.slice(0, SHOWN).map((row) => element("tr", {}, Object.values(row).map(cell)));
  const shown = table.length > SHOWN ? `The first ${SHOWN} of ${table.length.toLocaleString("en")} rows` : `${table.length} rows`;
  const whole = rows.slice(0, predictions.length);
  return [
    element("div", { className: "row" }, [
      saving(`${stem}_predictions.csv`, "text/csv", () => csv(table)),
      saving(`${stem}_predictions.jsonl`, "application/jsonl", () => whole.map((row, i) => JSON.stringify({ ...row, prediction: predictions[i] })).join("\n")),
    ]),
    element("div", { className: "wide", tabIndex: 0 }, [
      element("table", { className: "rows" }, [element("caption", { textContent: shown }), element("thead", {}, [head]), element("tbody", {}, body)]),
    ]),
  ];
}
