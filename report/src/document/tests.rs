use super::*;
use crate::grid::Value;

fn sample() -> Document {
    let mut document = Document::new("a <b> | page");
    document.fact("kernel", Some("6.12"));
    document.fact("nothing", None::<String>);
    let mut section = Section::new("First");
    section.say(Severity::Good, "it is on");
    section.say_with_fix(
        Severity::Problem,
        "one <script> | is off",
        Some("avic=1 in /etc/modprobe.d/kvm.conf".into()),
    );
    let mut grid = Grid::new("Counts", &["name", "count", "empty"]);
    grid.rows.push(vec![Value::text("a|b\nc<d>"), Value::Count(12_345), Value::Missing]);
    section.show(grid);
    section.show(Grid::new("without rows", &["name"]));
    section.draw(Series {
        title: "Exits".into(),
        unit: "per second".into(),
        starts: vec![0.0, 1.0, 2.0],
        lines: vec![("vCPU 0".into(), vec![1.0, 3.0])],
    });
    document.add(section);
    document.add(Section::new("with nothing in it"));
    document
}

#[test]
fn text_has_every_part_and_no_line_that_is_too_wide() {
    let text = sample().to_text_within(60);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..6],
        [
            "a <b> | page",
            "  kernel: 6.12",
            "",
            "First",
            "          it is on",
            "  problem one <script> | is off",
        ]
    );
    assert!(text.contains("          change: avic=1 in /etc/modprobe.d/kvm.conf\n"), "{text}");
    assert!(text.contains("12,345") && text.contains("vCPU 0"), "{text}");
    assert!(!text.contains("with nothing") && !text.contains("without rows"), "{text}");
    let long = "word ".repeat(60);
    let mut document = Document::new(&long);
    let mut section = Section::new("S");
    section.say(Severity::Warning, &long);
    document.add(section);
    for line in document.to_text_within(50).lines() {
        assert!(line.chars().count() <= 50, "{line}");
    }
}

#[test]
fn words_of_others_are_no_markup() {
    let html = sample().to_html();
    assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"), "{html}");
    let markdown = sample().to_markdown();
    assert!(!markdown.contains("<script>"), "{markdown}");
    assert!(markdown.contains("| a\\|b\\\\u{a}c&lt;d> | 12,345 |"), "{markdown}");
}

#[test]
fn programs_get_all_of_it_with_a_version() {
    let value: serde_json::Value =
        serde_json::from_str(&sample().to_json().expect("serializable")).expect("JSON");
    assert_eq!(value["schema"], 1);
    let parts = &value["sections"][0]["parts"];
    assert_eq!(parts[1]["kind"], "sentence");
    assert_eq!(parts[1]["severity"], "problem");
    assert_eq!(parts[2]["kind"], "table");
    assert_eq!(parts[2]["rows"][0][1], 12_345);
    assert_eq!(parts[3]["kind"], "series");
    assert_eq!(sample().to_csv(), "name,count\r\n\"a|b\nc<d>\",12345\r\n");
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let schema = schema::of::<Document>("avicenna report --format json", SCHEMA);
    schema::assert_published("report-1.json", &schema);
    let value = serde_json::to_value(sample()).expect("JSON");
    schema::assert_follows(&value, &schema, "report");
}
