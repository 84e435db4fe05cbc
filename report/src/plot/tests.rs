use super::*;

fn distribution<'a>(name: &str, octaves: &'a [(u64, u64)]) -> Distribution<'a> {
    Distribution { name: name.into(), note: String::new(), octaves, colour: COLOURS[0] }
}

#[test]
fn plots_are_whole_and_escape_names() {
    let name = "<vm> & co".to_owned();
    let bar = || (name.clone(), 3.0, "3".into(), COLOURS[0]);
    let side = Some((3.0, "3".to_owned()));
    let pair = Pair { name: name.clone(), before: side.clone(), after: side, ..Pair::default() };
    let all = [
        bars("t", &[bar()]),
        bars_beside("t", &[], &[bar()]),
        pairs("t", &[pair]),
        stack("t", &[(name.clone(), 1.0, COLOURS[0])]),
        lines("t", "u", &[0.0, 1.0], &[(name.clone(), vec![1.0, 2.0])]),
        distributions("t", &[distribution(&name, &[(1024, 3)])]),
        stretches("t", 1.0, &[(name, vec![(0.0, 0.5)])]),
    ];
    for html in all {
        assert!(html.starts_with("<figure") && html.ends_with("</figure>\n"));
        assert!(html.contains("&lt;vm&gt; &amp; co") && !html.contains("<vm>"), "{html}");
        for element in ["div", "span", "svg", "ul", "i", "b", "p"] {
            let opened = html.matches(&format!("<{element} ")).count()
                + html.matches(&format!("<{element}>")).count();
            assert_eq!(opened, html.matches(&format!("</{element}>")).count(), "{element} {html}");
        }
    }
}

#[test]
fn nothing_to_draw_draws_nothing_wrong() {
    let all = [
        bars("t", &[]),
        pairs("t", &[Pair::default()]),
        stack("t", &[]),
        lines("t", "u", &[], &[]),
        distributions("t", &[]),
        distributions("t", &[distribution("x", &[(0, 1), (u64::MAX, 1)])]),
        stretches("t", 0.0, &[("x".into(), vec![(0.0, 0.0)])]),
    ];
    for html in all {
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
    }
}

#[test]
fn labels_are_whole_however_long() {
    let name = "msr ".repeat(60);
    assert!(bars("t", &[(name.clone(), 1.0, String::new(), COLOURS[0])]).contains(&name));
    let pair = Pair { name: name.clone(), ..Pair::default() };
    assert!(pairs("t", &[pair]).contains(&name));
}

#[test]
fn what_is_beside_the_scale_does_not_set_it() {
    let bar = |name: &str, value| (name.to_owned(), value, String::new(), COLOURS[0]);
    let html = bars_beside("t", &[bar("msr", 2.0), bar("npf", 1.0)], &[bar("hlt", 1000.0)]);
    assert!(html.contains("width:100.00%") && html.contains("width:50.00%"), "{html}");
    assert!(html.contains("beside the scale: hlt"), "{html}");
}

#[test]
fn distributions_share_one_axis() {
    let (short, long) = ([(1024, 4), (2048, 1)], [(1 << 20, 7)]);
    let html = distributions("t", &[distribution("a", &short), distribution("b", &long)]);
    assert_eq!(html.matches("viewBox=\"0 0 11 40\"").count(), 2, "{html}");
    assert_eq!(html.matches("class=\"axis").count(), 1, "{html}");
    assert!(html.contains("x=\"0.05\"") && html.contains("x=\"10.05\""), "{html}");
    assert!(html.contains(">1us<"), "{html}");
}

#[test]
fn long_lines_are_drawn_by_their_means_and_what_is_left_out_is_said() {
    let xs: Vec<f64> = (0..1000).map(f64::from).collect();
    let saw: Vec<f64> = (0..1000).map(|n| f64::from(n % 2 * 200)).collect();
    let series: Vec<(String, Vec<f64>)> = (0..20).map(|n| (format!("v{n}"), saw.clone())).collect();
    let svg = lines("t", "u", &xs, &series);
    let points = svg.split("points=\"").nth(1).and_then(|text| text.split('"').next());
    assert!(points.is_some_and(|points| points.split(' ').count() <= over_time::most_points()));
    assert!(svg.contains("and 4 more") && svg.contains(">100</span>"), "{svg}");
}

#[test]
fn axes_end_at_round_numbers() {
    for (value, ceiling) in [(0.0, 1.0), (0.3, 0.5), (7.0, 10.0), (101.0, 200.0), (5.0, 5.0)] {
        assert!((over_time::nice_ceiling(value) - ceiling).abs() < 1e-9, "{value}");
    }
}
