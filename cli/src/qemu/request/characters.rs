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
fn serial_port_and_console_ports_are_at_files() {
    let file = ("chardev", "file,id=f,path=out.txt");
    for (options, expected) in [
        (&[file, ("serial", "chardev:f")][..], "--serial out.txt"),
        (&[("serial", "null")], "--serial /dev/null"),
        (&[("serial", "file:a.txt")], "--serial a.txt"),
        (
            &[file, ("device", "virtio-serial-pci"), ("device", "virtserialport,name=a,chardev=f")],
            "--console a=out.txt",
        ),
        (&[file, ("device", "virtconsole,chardev=f")], "--console out.txt"),
        (
            &[("chardev", "stdio,id=i"), ("device", "virtserialport,name=in,chardev=i")],
            "--console in=/dev/stdout --stdin in",
        ),
        (
            &[
                ("device", "virtio-9p-pci,fsdev=r,mount_tag=/dev/root"),
                ("fsdev", "local,id=r,path=/,security_model=none,readonly=on,multidevs=remap"),
            ],
            "--share /dev/root=/",
        ),
        (
            &[("virtfs", "local,path=/srv,mount_tag=srv,security_model=none,id=x")],
            "--share srv=/srv,writable",
        ),
    ] {
        let request = taken(options).expect("known options");
        let serial = request.serial.iter().flat_map(|file| ["--serial", file]);
        let said: Vec<&str> = serial.chain(request.devices.iter().map(String::as_str)).collect();
        assert_eq!(said.join(" "), expected, "{options:?}");
    }
}

#[test]
fn what_is_not_there_is_named() {
    let socket = ("chardev", "socket,id=m,path=/tmp/m,server=on");
    for (options, why) in [
        (&[("mon", "chardev=m")][..], "no -chardev with id=m"),
        (&[("serial", "chardev:m")], "no -chardev with id=m"),
        (&[("chardev", "stdio")], "id=NAME"),
        (&[("chardev", "file,id=f")], "path=PATH"),
        (&[("device", "virtserialport,name=a")], "chardev=ID"),
        (&[("device", "virtio-9p-pci,fsdev=r,mount_tag=t")], "no -fsdev with id=r"),
        (&[("fsdev", "local,id=r")], "path=PATH"),
        (&[("fsdev", "synth,id=r")], "only local"),
        (&[("virtfs", "local,path=/")], "mount_tag=TAG"),
        (&[("virtfs", "local,path=/,mount_tag=t,security_model=nosuch")], "security_model"),
        (&[("net", "user")], "only none"),
        (&[("chardev", "socket,id=m,host=localhost,port=1")], "path=PATH"),
        (&[("chardev", "pty,id=m")], "only socket, file, stdio and null"),
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
