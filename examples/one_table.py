"""One table: look at the data, learn a graph, add what is known, and save the result.

The rows are drawn from a known graph, so that the answer can be checked. With your own data, start from
`table = data.read("patients.csv")`.
"""

from pathlib import Path

from polydag import Graph, Knowledge, Notears, data, formats, metrics, plot, simulate

truth = Graph.from_edges(
    ["age", "income", "exercise", "weight", "pressure", "cost"],
    [
        ("age", "income", 0.6),
        ("income", "exercise", 0.7),
        ("exercise", "weight", -0.8),
        ("age", "pressure", 0.7),
        ("weight", "pressure", 0.9),
        ("pressure", "cost", 0.8),
        ("weight", "cost", 0.6),
    ],
)
table = data.from_frame(simulate.linear(truth, n=400, random_state=1), source="survey")

for finding in data.check(table).findings:
    print(f"{finding.severity}: {finding.message}")

known = Knowledge(tiers=[["age"], ["income", "exercise", "weight", "pressure"], ["cost"]])
model = Notears(knowledge=known).fit(table)
print(model.graph_)
print(model.edges_.to_string(index=False))
print("varsortability:", round(model.varsortability_, 2))
print(metrics.confusion(true=truth, estimate=model.graph_))

formats.write(model.graph_, "survey.dot")
Path("survey.svg").write_text(plot.svg(model.graph_), encoding="utf-8")
