use super::super::tests::{Numbers, control, machine};
use super::*;

fn hear(talk: &mut Talk, text: &str) -> (Vec<Value>, Wish) {
    talk.hear(text.as_bytes(), &mut control(), &mut machine())
}

fn open() -> Talk {
    let mut talk = Talk::default();
    let (said, _) = hear(&mut talk, r#"{"execute": "qmp_capabilities"}"#);
    assert_eq!(said, [json!({ "return": {} })]);
    talk
}

#[test]
fn capabilities_come_first_and_once() {
    let mut talk = Talk::default();
    let class = |said: &[Value]| said[0]["error"]["class"].clone();
    assert_eq!(class(&hear(&mut talk, r#"{"execute": "stop"}"#).0), "CommandNotFound");
    assert_eq!(
        class(&hear(&mut open(), r#"{"execute": "qmp_capabilities"}"#).0),
        "CommandNotFound"
    );
}

#[test]
fn what_a_command_changes_is_told_before_it_is_answered() {
    let (mut control, mut machine) = (control(), machine());
    let mut talk = open();
    let mut say = |name: &str| {
        let text = json!({ "execute": name, "id": 7 }).to_string();
        let (said, wish) = talk.hear(text.as_bytes(), &mut control, &mut machine);
        let words: Vec<String> = said
            .iter()
            .map(|value| match value.get("event") {
                Some(event) => event.to_string(),
                None => format!("{} {}", value["return"], value["id"]),
            })
            .collect();
        (words.join(" "), wish)
    };
    for (name, said, wish) in [
        ("query-status", r#"{"running":false,"status":"paused"} 7"#, Wish::Nothing),
        ("cont", r#""RESUME" {} 7"#, Wish::Nothing),
        ("cont", "{} 7", Wish::Nothing),
        ("query-status", r#"{"running":true,"status":"running"} 7"#, Wish::Nothing),
        ("stop", r#""STOP" {} 7"#, Wish::Nothing),
        ("system_reset", r#""RESET" {} 7"#, Wish::Reset),
        ("quit", r#""SHUTDOWN" {} 7"#, Wish::Quit),
    ] {
        assert_eq!(say(name), (said.to_owned(), wish), "{name}");
    }
}

#[test]
fn people_s_commands_show_the_machine_and_change_nothing() {
    let mut talk = open();
    for (line, expected) in [
        ("info registers", "RIP"),
        ("info lapic", "TPR"),
        ("info pic", "IMR"),
        ("info nothing", "must be one of"),
        ("quit", "commands of QMP"),
        ("type x", "commands of QMP"),
        ("", ""),
    ] {
        let request = json!({
            "execute": "human-monitor-command",
            "arguments": { "command-line": line },
        });
        let (said, wish) = hear(&mut talk, &request.to_string());
        let text = said[0]["return"].as_str().expect(line);
        assert!(text.contains(expected), "{line}: {text}");
        assert_eq!(wish, Wish::Nothing);
    }
}

#[test]
fn a_request_that_is_wrong_is_refused_with_its_class_and_the_next_is_heard() {
    let mut talk = open();
    for (text, why) in [
        ("[]\n", "expected an object"),
        ("{\"execute\"}", "JSON parse error"),
        ("{}", "lacks member 'execute'"),
        ("{\"execute\": 1}", "must be a string"),
        ("{\"execute\": \"stop\", \"argument\": 1}", "'argument' is unexpected"),
        ("{\"execute\": \"stop\", \"arguments\": []}", "must be an object"),
        ("{\"execute\": \"stop\", \"arguments\": {\"a\": 1}}", "Parameter 'a' is unexpected"),
        ("{\"execute\": \"device_add\"}", "device_add has not been found"),
        ("{\"execute\": \"human-monitor-command\"}", "'command-line' is missing"),
    ] {
        let (said, _) = hear(&mut talk, text);
        let desc = said[0]["error"]["desc"].as_str().expect(text);
        assert!(desc.contains(why), "{text}: {desc}");
        assert_eq!(hear(&mut talk, "{\"execute\": \"query-version\"}").0.len(), 1, "{text}");
    }
}

/// Random bytes, requests cut in half, and whole ones between them: nothing crashes, and in the end
/// the talk still hears.
#[test]
fn no_bytes_are_too_strange_to_be_heard() {
    let pieces: [&[u8]; 14] = [
        b"{\"execute\": \"qmp_capabilities\"}",
        b"{\"execute\": \"human-monitor-command\", \"arguments\": {\"command-line\": \"info lapic\"}}",
        b"{\"execute\": \"stop\"}\r\n",
        b"{\"execute\": \"cont\", \"id\": [[[{}]]]}",
        b"{\"execute\": ",
        b"\"arguments\": {",
        b"}",
        b"{{{{",
        b"\"",
        b"\\",
        b"\n",
        b"\xFF\xFE\x00",
        b"{\"id\": 1e999, \"execute\": null}",
        b"[[[[[[[[",
    ];
    let (mut control, mut machine) = (control(), machine());
    let (mut talk, mut numbers) = (Talk::default(), Numbers(29));
    for _ in 0..10_000 {
        let piece = pieces[numbers.below(pieces.len())];
        let end = if numbers.below(4) == 0 { numbers.below(piece.len()) } else { piece.len() };
        let mut bytes = piece[..end].to_vec();
        if numbers.below(4) == 0 && !bytes.is_empty() {
            let at = numbers.below(bytes.len());
            bytes[at] = numbers.below(256) as u8;
        }
        let _ = talk.hear(&bytes, &mut control, &mut machine);
    }
    // Whatever stands open ends with enough of what closes it.
    let close = "\"}\n".repeat(70_000);
    let _ = talk.hear(close.as_bytes(), &mut control, &mut machine);
    let _ = talk.hear(b"\n{\"execute\": \"qmp_capabilities\"}", &mut control, &mut machine);
    let (said, _) = talk.hear(b"{\"execute\": \"query-status\"}", &mut control, &mut machine);
    assert!(said.last().is_some_and(|value| value.get("return").is_some()), "{said:?}");
}
