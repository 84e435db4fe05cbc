//! Options that refer to character devices.

use super::Request;

/// Takes the words of options one after the other.
fn taken(options: &[(&str, &str)]) -> Result<Request, String> {
    let words: Vec<String> = options
        .iter()
        .flat_map(|(option, value)| [format!("-{option}"), (*value).to_owned()])
        .collect();
    Request::parse(&words, &|_| None)
}

#[test]
fn monitor_and_protocol_are_at_what_a_name_stands_for() {
    let socket = "socket,id=m,path=/tmp/m,server=on,wait=off";
    for (options, expected) in [
        (&[("chardev", socket), ("mon", "chardev=m,mode=readline")][..], "--monitor=/tmp/m"),
        (&[("chardev", socket), ("mon", "m")], "--monitor=/tmp/m"),
        (&[("mon", "m"), ("chardev", socket)], "--monitor=/tmp/m"),
        (&[("chardev", socket), ("mon", "chardev=m,mode=control")], "--qmp /tmp/m"),
        (&[("chardev", "stdio,id=c,mux=on,signal=off"), ("mon", "chardev=c")], "--monitor"),
        (&[("chardev", "null,id=n"), ("mon", "chardev=n"), ("serial", "chardev:n")], ""),
    ] {
        let said = taken(options).expect("known options").watchers().join(" ");
        assert_eq!(said, expected, "{options:?}");
    }
    let device = [("chardev", "stdio,id=c"), ("device", "isa-serial,chardev=c")];
    assert!(taken(&device).is_ok());
}

#[test]
fn a_terminal_that_the_serial_port_has_stays_its_own() {
    let (terminal, monitor) = (("chardev", "stdio,id=c,mux=on"), ("mon", "chardev=c"));
    for serial in [("serial", "chardev:c"), ("device", "isa-serial,chardev=c")] {
        for options in
            [&[terminal, serial][..], &[terminal, serial, monitor], &[terminal, monitor, serial]]
        {
            let request = taken(options).expect("the serial port");
            assert!(request.watchers().is_empty(), "{options:?}");
            assert_eq!(request.ignored.len(), usize::from(options.len() == 3), "{options:?}");
        }
    }
}

#[test]
fn what_is_not_there_is_named() {
    let socket = ("chardev", "socket,id=m,path=/tmp/m,server=on");
    for (options, why) in [
        (&[("mon", "chardev=m")][..], "no -chardev with id=m"),
        (&[("serial", "chardev:m")], "no -chardev with id=m"),
        (&[("chardev", "stdio")], "id=NAME"),
        (&[("chardev", "socket,id=m,host=localhost,port=1")], "path=PATH"),
        (&[("chardev", "pty,id=m")], "only socket, stdio and null"),
        (&[("chardev", "stdio,id=m,nosuch=1")], "nosuch"),
        (&[("chardev", "socket,id=m,path=/tmp/m")], "server=on"),
        (&[socket, socket], "of this name"),
        (&[socket, ("mon", "chardev=m,mode=nosuch")], "readline or control"),
        (&[socket, ("serial", "chardev:m")], "only stdio"),
        (&[("chardev", "stdio,id=c"), ("mon", "chardev=c,mode=control")], "socket file alone"),
    ] {
        let error = taken(options).map(|_| ()).expect_err(why);
        assert!(error.contains(why), "{options:?}: {error}");
    }
}
