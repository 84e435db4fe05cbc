//! `avicenna lab senduipi`: user interrupts natively and in a guest.

use crate::status::Status;
use crate::terminal;
use anyhow::Context as _;
use cpu::CpuModel;
use report::grid::folded;
use std::process::ExitCode;

const MODEL: &str = "sapphire-rapids";

const READ: &str = "Cycles at 2.0 GHz, medians, of the machine's cost model on sapphire-rapids. The \
published row is Skyloft's (SOSP 2024, Xeon Gold 5418Y at 2.0 GHz). Native send is that 167; native \
receive is what its 661 were shared among; one way rests on a message time that was derived from its \
1,211: none of the three is a prediction. The guests' rows are computed, nothing is published for them; \
exits are those of each one more that is sent. \
Linux has no user of user interrupts: the guest is uintr, the hypervisor the one that comes along.";

pub(super) fn run() -> anyhow::Result<ExitCode> {
    let model = CpuModel::named(MODEL).context("a model that comes along")?;
    let answer = lab::senduipi::answer(&model)?;
    let columns = terminal::columns();
    let (verdict, read) = (folded(&answer.verdict, columns, 2), folded(READ, columns, 0));
    terminal::print(&format!("{verdict}\n{}\n{read}", answer.table.to_text()));
    let status = if answer.holds { Status::Clean } else { Status::Findings };
    Ok(status.into())
}
