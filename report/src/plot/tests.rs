use super::*;

#[test]
fn plots_are_whole_and_escape_names() {
    let name = "<vm> & co".to_owned();
    let all = [
        bars("t", &[(name.clone(), 3.0, "3".into(), COLOURS[0])]),
        stack("t", &[(name.clone(), 1.0, COLOURS[0])]),
        lines("t", "u", &[0.0, 1.0], &[(name.clone(), vec![1.0, 2.0])]),
        histogram(&name, &[(1024, 3)], COLOURS[0]),
        stretches("t", 1.0, &[(name, vec![(0.0, 0.5)])]),
    ];
    for svg in all {
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("&lt;vm&gt; &amp; co") && !svg.contains("<vm>"), "{svg}");
    }
}

#[test]
fn nothing_to_draw_draws_nothing_wrong() {
    let all = [bars("t", &[]), stack("t", &[]), lines("t", "u", &[], &[]), histogram("t", &[], "")];
    for svg in all {
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn a_long_gap_of_a_histogram_is_cut_out() {
    let octaves: Vec<(u64, u64)> = [4, 0, 0, 0, 0, 7, 0, 0, 1]
        .into_iter()
        .enumerate()
        .map(|(at, count)| (1 << at, count))
        .collect();
    let columns = without_gaps(&octaves);
    let counts: Vec<Option<u64>> = columns.iter().map(|column| column.map(|c| c.1)).collect();
    assert_eq!(counts, [Some(4), None, Some(7), Some(0), Some(0), Some(1)]);
}

#[test]
fn long_lines_are_drawn_by_their_means_and_what_is_left_out_is_said() {
    let xs: Vec<f64> = (0..1000).map(f64::from).collect();
    let saw: Vec<f64> = (0..1000).map(|n| f64::from(n % 2 * 200)).collect();
    let series: Vec<(String, Vec<f64>)> = (0..20).map(|n| (format!("v{n}"), saw.clone())).collect();
    let svg = lines("t", "u", &xs, &series);
    let points = svg.split("points=\"").nth(1).and_then(|text| text.split('"').next());
    assert!(points.is_some_and(|points| points.split(' ').count() <= MOST_POINTS));
    assert!(svg.contains("and 4 more") && svg.contains(">100</text>"), "{svg}");
}

#[test]
fn axes_end_at_round_numbers() {
    for (value, ceiling) in [(0.0, 1.0), (0.3, 0.5), (7.0, 10.0), (101.0, 200.0), (5.0, 5.0)] {
        assert!((nice_ceiling(value) - ceiling).abs() < 1e-9, "{value}");
    }
}
