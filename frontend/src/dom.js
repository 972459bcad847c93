// Elements, numbers and downloads. Text from the data only ever becomes a text node or an attribute.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (node instanceof HTMLElement && name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element: el("p", { class: "note" }, "text", child). */
export const el = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** An SVG element. */
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** A form field with its label. */
export const field = (label, input) => el("label", { class: "field" }, el("span", {}, label), input);

/** A button. */
export const button = (label, onclick, props = {}) => el("button", { type: "button", ...props, onclick }, label);

/** A number with few digits; a dash for what is not known. */
export function shown(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
}

/** A share with two decimals. */
export const share = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));

/** Saves content as a file. */
export function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Rows as CSV; a cell that a spreadsheet would take for a formula is quoted as text. */
export function csv(rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
