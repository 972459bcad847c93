// A table that sorts, filters and exports itself.

import { button, csv, download, el, field, shown } from "./dom.js";

const STEP = 100; // rows at a time

/**
 * columns: { name, value(row), text(row)? , number? }; filters: { label, keep(row) } as choices.
 * `choose` is called with a row that is clicked, or entered by keyboard.
 */
export function table({ label, columns, rows, file, choose, filters = [], sort = null }) {
  let order = sort, limit = STEP;
  const search = el("input", { type: "search", "aria-label": `Filter ${label}`, placeholder: "name contains …" });
  const kind = filters.length > 0 && el("select", { "aria-label": `Which rows of ${label}` },
    filters.map(({ label: text }, k) => el("option", { value: String(k) }, text)));
  const count = el("output", { class: "count" });
  const head = el("tr"), body = el("tbody");
  const more = button("Show more rows", () => { limit += 5 * STEP; draw(); });

  const text = (column, row) => (column.text ? column.text(row) : shown(column.value(row)));
  function chosen() {
    const part = search.value.trim().toLowerCase();
    const keep = kind ? filters[Number(kind.value)].keep : () => true;
    const found = rows.filter((row) => keep(row)
      && (!part || columns.some((column) => !column.number && text(column, row).toLowerCase().includes(part))));
    if (order) {
      const { value, number } = columns[order.column], sign = order.down ? -1 : 1;
      const compare = number
        ? (p, q) => ((value(p) ?? -Infinity) - (value(q) ?? -Infinity)) * sign
        : (p, q) => String(value(p)).localeCompare(String(value(q))) * sign;
      found.sort(compare);
    }
    return found;
  }
  function draw() {
    const found = chosen();
    count.textContent = `${found.length} of ${rows.length} rows`;
    head.replaceChildren(...columns.map((column, k) => {
      const here = order?.column === k;
      return el("th", { scope: "col", "aria-sort": here ? (order.down ? "descending" : "ascending") : "none",
        class: column.number ? "number" : "" },
      button(`${column.name}${here ? (order.down ? " ▾" : " ▴") : ""}`, () => {
        order = { column: k, down: here ? !order.down : Boolean(column.number) };
        draw();
      }));
    }));
    body.replaceChildren(...found.slice(0, limit).map((row) => el("tr",
      choose ? { tabIndex: 0, onclick: () => choose(row), onkeydown: (event) => event.key === "Enter" && choose(row) } : {},
      columns.map((column) => el("td", { class: column.number ? "number" : "" }, text(column, row))))));
    more.hidden = found.length <= limit;
  }
  search.addEventListener("input", draw);
  if (kind) kind.addEventListener("change", draw);
  draw();
  return el("div", { class: "listing" },
    el("div", { class: "tools" }, field("Filter", search), kind && field("Show", kind), count,
      button("Save CSV", () => download(file, csv([columns.map((c) => c.name), ...chosen().map((row) => columns.map((c) => c.value(row)))]), "text/csv"))),
    el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": label }, el("table", {}, el("thead", {}, head), body)),
    more);
}
