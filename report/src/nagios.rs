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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_the_text_is_left_out() {
        assert_eq!(line(Answer::No, "a|b\nc", "x=1"), "AVICENNA WARNING: a b c | x=1\n");
    }
}
