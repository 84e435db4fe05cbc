//! A plugin's line for Nagios and Icinga.

use rules::finding::Answer;

/// The word of its status, what there is to say, figures behind a bar.
pub fn line(answer: Answer, text: &str, figures: &str) -> String {
    let word = match answer {
        Answer::Yes => "OK",
        Answer::No => "WARNING",
        Answer::Unknown => "UNKNOWN",
    };
    // A bar begins the figures, a line end the long text.
    let text = text.replace(['|', '\n'], " ");
    format!("AVICENNA {word}: {text} | {figures}\n")
}

/// The line of several hosts: each with its answer and what there is to say of it.
pub fn of_hosts(hosts: &[(String, Answer, String)]) -> String {
    let count = |answer| hosts.iter().filter(|host| host.1 == answer).count();
    let worst = hosts.iter().fold(Answer::Yes, |all, host| all.and(host.1));
    let mut text = format!("{} of {} hosts are well", count(Answer::Yes), hosts.len());
    for (name, _, said) in hosts.iter().filter(|host| host.1 != Answer::Yes) {
        text.push_str(&format!("; {name}: {said}"));
    }
    let figures = format!(
        "yes={} no={} unknown={}",
        count(Answer::Yes),
        count(Answer::No),
        count(Answer::Unknown)
    );
    line(worst, &text, &figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_host_decides_and_those_that_are_not_well_are_named() {
        let host = |name: &str, answer| (name.to_owned(), answer, format!("{answer}|"));
        let hosts = [host("a", Answer::Yes), host("b", Answer::Unknown), host("c", Answer::No)];
        let expected =
            "AVICENNA WARNING: 1 of 3 hosts are well; b: unknown ; c: no  | yes=1 no=1 unknown=1\n";
        assert_eq!(of_hosts(&hosts), expected);
        assert!(of_hosts(&hosts[..2]).starts_with("AVICENNA UNKNOWN: 1 of 2"));
    }

    #[test]
    fn what_would_end_the_text_is_left_out() {
        assert_eq!(line(Answer::No, "a|b\nc", "x=1"), "AVICENNA WARNING: a b c | x=1\n");
    }
}
