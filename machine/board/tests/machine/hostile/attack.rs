//! What guests do to the machine that executes them. Each round's results, faults included, are
//! noted.

use crate::hostile::guest::{
    ALL, Attack, COMPATIBILITY, FRAME, MIDDLE, OTHER, PRISTINE, Page, RAM, REMAPPED_ENTRY, SCRATCH,
    SHARED, STACK, TOP, answering, assemble_at, call, guarded, note,
};
use iced_x86::code_asm::*;

const NOTHING: fn() -> Vec<(u64, Vec<u8>)> = Vec::new;

pub const ATTACKS: [Attack; 12] = [
    Attack {
        name: "operands at the end of RAM",
        before: |_, _| Ok(()),
        round: |a, _| operands_around(a, RAM),
        memory: NOTHING,
    },
    Attack {
        name: "operands around the last address, a device and nothing",
        before: |_, _| Ok(()),
        round: |a, _| {
            operands_around(a, 0)?;
            operands_around(a, 1 << 47)?;
            operands_around(a, Page::Device.address())?;
            operands_around(a, Page::Nothing.address())
        },
        memory: NOTHING,
    },
    Attack {
        name: "code up to the end of RAM, of addresses, and in devices",
        before: |_, _| Ok(()),
        round: code_at_ends,
        memory: || {
            // INC RAX, five times, and NOP; the last instruction reads around the last address.
            let slide = [[0x48, 0xFF, 0xC0].repeat(5), vec![0x90]].concat();
            let relative = vec![0x48, 0x8B, 0x05, 0x08, 0, 0, 0, 0xC3];
            vec![
                (RAM - 16, slide.clone()),
                (TOP + 0xFF0, slide.clone()),
                (MIDDLE + 0xFF0, slide.clone()),
                (TOP + 0xFE8, relative),
                (OTHER + 0xFF0, slide),
                (0, answering(3)),
            ]
        },
    },
    Attack {
        name: "instructions ahead",
        before: |_, _| Ok(()),
        round: instructions_ahead,
        memory: NOTHING,
    },
    Attack {
        name: "code by another name",
        before: |_, _| Ok(()),
        round: |a, _| {
            for (written, called) in
                [(Page::Alias.address(), FRAME), (FRAME, Page::Alias.address())]
            {
                for called in [called, written] {
                    a.mov(rdi, written + 1)?;
                    a.mov(byte_ptr(rdi), r14b)?;
                    call(a, called)?;
                }
            }
            Ok(())
        },
        memory: || vec![(FRAME, answering(0))],
    },
    Attack {
        name: "strings over the code that moves them",
        before: |_, _| Ok(()),
        round: |a, _| {
            a.mov(rsi, PRISTINE)?;
            a.mov(rdi, FRAME)?;
            a.mov(ecx, 0x40)?;
            a.rep().movsb()?;
            call(a, FRAME)?;
            call(a, FRAME + 0x20)
        },
        memory: || {
            // REP STOSB over itself and what follows; REP MOVSB of other instructions over itself.
            let stores = assemble_at(FRAME, |a| {
                a.lea(rdi, ptr(FRAME + 14))?;
                a.mov(al, 0x90)?;
                a.mov(ecx, 6)?;
                a.rep().stosb()?;
                a.inc(r14)?;
                a.dec(r14)?;
                a.ret()
            });
            let moves = assemble_at(FRAME + 0x20, |a| {
                a.lea(rsi, ptr(FRAME))?;
                a.lea(rdi, ptr(FRAME + 0x28))?;
                a.mov(ecx, 20)?;
                a.rep().movsb()?;
                a.ret()
            });
            vec![(PRISTINE, stores), (PRISTINE + 0x20, moves)]
        },
    },
    Attack {
        name: "a stack on code",
        before: |_, _| Ok(()),
        round: |a, _| {
            for place in [FRAME + 8, FRAME + 0x103E, FRAME + 0x1004] {
                guarded(a, |a| {
                    a.mov(rax, 0x9090_9090_00C3_00B0u64)?;
                    a.movzx(ecx, r14b)?;
                    a.shl(ecx, 8)?;
                    a.or(rax, rcx)?;
                    a.mov(rsp, place)?;
                    a.push(rax)?;
                    a.mov(rcx, place - 8)?;
                    a.mov(rsp, STACK)?;
                    a.call(rcx)
                })?;
                // The return address overwrites what is called.
                guarded(a, |a| {
                    a.mov(rcx, place - 8)?;
                    a.mov(rsp, place)?;
                    a.call(rcx)
                })?;
            }
            Ok(())
        },
        memory: NOTHING,
    },
    Attack {
        name: "another processor's writes",
        before: |_, _| Ok(()),
        round: |a, _| {
            for _ in 0..8 {
                call(a, SHARED)?;
            }
            Ok(())
        },
        memory: || vec![(SHARED, answering(0))],
    },
    Attack {
        name: "a device's writes",
        before: |a, place| {
            a.mov(rdi, place.engine + 0x80)?;
            a.mov(word_ptr(rdi), 0x1D)?;
            a.mov(rax, SCRATCH + 0x800)?;
            a.mov(qword_ptr(rdi + 0x18), rax)?;
            a.mov(rax, SCRATCH)?;
            a.mov(qword_ptr(rdi + 0x10), rax)?;
            a.xor(r13d, r13d)
        },
        round: |a, place| {
            a.mov(rdi, SCRATCH + 0x401)?;
            a.mov(byte_ptr(rdi), r14b)?;
            a.inc(r13d)?;
            a.mov(rdi, place.engine + 0x86)?;
            a.mov(word_ptr(rdi), r13w)?;
            let mut again = a.create_label();
            a.mov(r12d, 60)?;
            a.set_label(&mut again)?;
            call(a, FRAME)?;
            a.dec(r12d)?;
            a.jne(again)
        },
        memory: || {
            // A descriptor that follows itself copies three bytes of code.
            let descriptor = [3, SCRATCH + 0x400, FRAME, SCRATCH];
            vec![
                (SCRATCH, descriptor.map(u64::to_le_bytes).concat()),
                (SCRATCH + 0x400, answering(0)),
                (FRAME, answering(0)),
            ]
        },
    },
    Attack {
        name: "other frames",
        before: |_, _| Ok(()),
        round: other_frames,
        memory: || {
            let entry = REMAPPED_ENTRY;
            let page = Page::Remapped.address();
            // The instruction behind INVLPG comes from the other frame.
            let own = |value| {
                let exchange = assemble_at(FRAME + 0x200, |a| {
                    a.mov(rdi, entry)?;
                    a.xor(qword_ptr(rdi), (FRAME ^ OTHER) as i32)?;
                    a.mov(rdi, page)?;
                    a.invlpg(ptr(rdi))
                });
                [exchange, answering(value)].concat()
            };
            vec![
                (FRAME, answering(1)),
                (OTHER, answering(2)),
                (FRAME + 0x200, own(3)),
                (OTHER + 0x200, own(4)),
            ]
        },
    },
    Attack {
        name: "the same bytes in another mode",
        before: |_, _| Ok(()),
        round: |a, _| {
            // INC EAX, or a prefix; RETF.
            for changed in [0x40, 0x48, 0x90] {
                a.mov(rdi, FRAME)?;
                a.mov(byte_ptr(rdi), changed)?;
                call(a, FRAME + 1)?;
                let mut back = a.create_label();
                a.lea(rax, ptr(back))?;
                a.mov(rcx, 8u64 << 32)?;
                a.or(rax, rcx)?;
                a.mov(rsp, STACK - 0x1000)?;
                a.push(rax)?;
                a.push(COMPATIBILITY)?;
                a.mov(rcx, FRAME)?;
                a.push(rcx)?;
                // RETF with operands of 64 bits.
                a.db(&[0x48, 0xCB])?;
                a.set_label(&mut back)?;
                a.mov(rsp, STACK)?;
                a.movzx(eax, al)?;
                note(a)?;
            }
            Ok(())
        },
        memory: || vec![(FRAME, vec![0x40, 0x40, 0xCB])],
    },
    Attack {
        name: "instructions across pages",
        before: |_, _| Ok(()),
        round: |a, _| {
            // MOV EAX with its bytes in two pages: the second changes, is nothing, is a device.
            for length in 1..5 {
                a.mov(rdi, FRAME + 0x1000 - length)?;
                a.mov(byte_ptr(rdi), 0xB8u32 as i32)?;
                a.mov(rdi, OTHER)?;
                a.mov(dword_ptr(rdi), r14d)?;
                a.mov(dword_ptr(rdi + 4), 0xC3C3_C3C3u32 as i32)?;
                call(a, FRAME + 0x1000 - length)?;
                for page in [Page::BeforeDevice, Page::BeforeNothing] {
                    a.mov(rdi, OTHER + 0x1000 - length)?;
                    a.mov(byte_ptr(rdi), 0xB8u32 as i32)?;
                    call(a, page.address() + 0x1000 - length)?;
                }
            }
            Ok(())
        },
        memory: NOTHING,
    },
];

/// Accesses of every width that begin up to 17 bytes below an address.
fn operands_around(a: &mut CodeAssembler, address: u64) -> Result<(), IcedError> {
    for below in 0..=17 {
        a.mov(rsi, address.wrapping_sub(below))?;
        guarded(a, |a| a.movzx(eax, byte_ptr(rsi)))?;
        guarded(a, |a| a.movzx(eax, word_ptr(rsi)))?;
        guarded(a, |a| a.mov(eax, dword_ptr(rsi)))?;
        guarded(a, |a| a.mov(rax, qword_ptr(rsi)))?;
        guarded(a, |a| {
            a.movups(xmm0, xmmword_ptr(rsi))?;
            a.movq(rax, xmm0)
        })?;
        guarded(a, |a| a.mov(word_ptr(rsi), bx))?;
        guarded(a, |a| a.mov(qword_ptr(rsi), rbx))?;
        guarded(a, |a| a.movups(xmmword_ptr(rsi), xmm0))?;
        guarded(a, |a| a.lock().xadd(qword_ptr(rsi), rax))?;
        guarded(a, |a| a.add(dword_ptr(rsi), r14d))?;
        guarded(a, |a| {
            a.mov(rsp, rsi)?;
            a.push(rbx)?;
            a.pop(rax)
        })?;
        guarded(a, |a| {
            a.mov(rdi, rsi)?;
            a.mov(ecx, 20)?;
            a.rep().stosb()
        })?;
        a.mov(rax, rcx)?;
        note(a)?;
    }
    Ok(())
}

fn code_at_ends(a: &mut CodeAssembler, _: &super::guest::Place) -> Result<(), IcedError> {
    // What stands at address 0 is reached from the last one.
    a.mov(edi, 0)?;
    a.mov(dword_ptr(rdi), 0x00C3_03B0)?;
    for below in 1..=16 {
        for end in [RAM, 0, 1 << 47, Page::Device.address(), Page::Nothing.address()] {
            call(a, u64::wrapping_sub(end, below))?;
        }
    }
    call(a, 0u64.wrapping_sub(0x18))?;
    for at in [Page::Device.address(), Page::Hole.address(), Page::Nothing.address(), 0xFEE0_0000] {
        call(a, at)?;
    }
    // The last byte becomes RET, and what it was.
    a.mov(rdi, RAM - 1)?;
    a.mov(byte_ptr(rdi), 0xC3u32 as i32)?;
    call(a, RAM - 4)?;
    a.mov(rdi, RAM - 1)?;
    a.mov(byte_ptr(rdi), 0x90u32 as i32)?;
    call(a, RAM - 4)
}

/// Stores to operands of instructions that follow, so near that they are one block, at every place
/// in a line.
fn instructions_ahead(a: &mut CodeAssembler, _: &super::guest::Place) -> Result<(), IcedError> {
    for distance in (0..70).step_by(3) {
        let mut target = a.create_label();
        a.lea(rdi, ptr(target))?;
        a.mov(word_ptr(rdi + 2), r14w)?;
        for _ in 0..distance {
            a.nop()?;
        }
        a.set_label(&mut target)?;
        a.mov(eax, 0x1234_5678)?;
        note(a)?;
    }
    // And to one of the loop that is running.
    let (mut target, mut again) = (a.create_label(), a.create_label());
    a.mov(ecx, 9)?;
    a.set_label(&mut again)?;
    a.lea(rdi, ptr(target))?;
    a.nop()?;
    a.set_label(&mut target)?;
    a.mov(eax, 0x1234_5678)?;
    note(a)?;
    a.mov(byte_ptr(rdi + 1), cl)?;
    a.dec(ecx)?;
    a.jne(again)
}

/// The page has another frame, with and without the translation being forgotten.
fn other_frames(a: &mut CodeAssembler, _: &super::guest::Place) -> Result<(), IcedError> {
    let page = Page::Remapped.address();
    for entry in [OTHER | ALL, FRAME | ALL, 1 << 63 | OTHER | ALL, FRAME, OTHER | ALL] {
        for forgets in 0..3 {
            a.mov(rdi, REMAPPED_ENTRY)?;
            a.mov(rax, entry)?;
            a.mov(qword_ptr(rdi), rax)?;
            a.mov(rdi, page)?;
            match forgets {
                0 => a.nop()?,
                1 => a.invlpg(ptr(rdi))?,
                _ => {
                    a.mov(rax, cr3)?;
                    a.mov(cr3, rax)?;
                }
            }
            call(a, page)?;
            call(a, page + 0x200)?;
        }
    }
    Ok(())
}
