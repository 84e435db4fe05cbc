//! The code that a board's processors share: decoded blocks, and what the host executes of them.

use super::blocks::Blocks;
use super::coverage::Covered;
use super::native::{Absence, Native, Verified, wanted_heat};
use super::runs::Classes;
use crate::operation::{Dialect, InstructionCosts};
use arch::identity::CpuIndex;

/// Decoded and translated code of all processors of a board.
pub struct CodeCache {
    /// By the place of their bytes.
    pub blocks: Blocks,
    /// Blocks that the host executes itself, if it may.
    pub(super) native: Option<Box<Native>>,
}

impl CodeCache {
    /// An empty cache for processors of one dialect.
    pub fn new(costs: InstructionCosts, dialect: Dialect) -> Self {
        Self { blocks: Blocks::new(costs, dialect), native: None }
    }

    /// An empty one that executes in the same way, for processors on which things take other times;
    /// it counts and verifies nothing.
    pub fn alike(&self, costs: InstructionCosts) -> Self {
        let native = self.native.as_ref().and_then(|native| Native::new(native.heat()).ok());
        Self { blocks: self.blocks.alike(costs), native: native.map(Box::new) }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Code that is decoded from now on takes what `costs` say, and what was decoded is decoded
    /// again.
    pub fn set_costs(&mut self, costs: InstructionCosts) {
        self.blocks.set_costs(costs);
    }

    /// Counts from here on, for so many processors, what they execute.
    pub fn count_runs(&mut self, processors: usize) {
        self.blocks.count_runs(processors);
    }

    /// Keeps from here on, for so many processors, which code they execute.
    pub fn count_coverage(&mut self, processors: usize) {
        self.blocks.count_coverage(processors);
    }

    /// What was executed since this was last called, by place; `None` if that is not kept.
    pub fn take_coverage(&mut self) -> Option<Vec<Covered>> {
        self.blocks.take_coverage()
    }

    /// What a processor has executed since then, by class; `None` if that is not counted.
    pub fn executed(&self, cpu: CpuIndex) -> Option<Classes> {
        self.blocks.executed(cpu)
    }

    /// Translates as the environment wants ([`wanted_heat`]) if the host allows.
    pub fn translate_as_wanted(&mut self) {
        if let Some(heat) = wanted_heat() {
            // Without an arena the interpreter runs, which `translates` says.
            let _ = self.translate(heat);
        }
    }

    /// From now on all is interpreted, in forms that store where memory takes note of it, so that
    /// stores can be kept ([`bus::StoreBuffer`]).
    pub fn keep_stores(&mut self) {
        self.interpret();
        self.blocks.keep_stores();
    }

    /// From now on all is interpreted.
    pub fn interpret(&mut self) {
        self.native = None;
    }

    /// Lets blocks that have run `heat` times be translated, if the host allows. Where stores are
    /// kept, none is.
    pub fn translate(&mut self, heat: u16) -> Result<(), Absence> {
        if !self.blocks.keeps_stores() {
            self.native = Some(Box::new(Native::new(heat)?));
        }
        Ok(())
    }

    /// Instructions that have completed in translated code.
    pub fn completed_translated(&self) -> u64 {
        self.native.as_ref().map_or(0, |native| native.completed())
    }

    /// Whether blocks are translated.
    pub fn translates(&self) -> bool {
        self.native.is_some()
    }

    /// Has every `every`th entry into translated code repeated in the interpreter and compared, at
    /// the price of two copies of RAM. Zero: none.
    pub fn verify(&mut self, every: u64) {
        if let Some(native) = &mut self.native {
            native.verify(every);
        }
    }

    /// What came of [`CodeCache::verify`], if entries are repeated.
    pub fn verified(&self) -> Option<&Verified> {
        self.native.as_ref()?.verified()
    }

    /// Instructions of loops that wait which were skipped.
    pub fn skipped(&self) -> u64 {
        self.native.as_ref().map_or(0, |native| native.skipped())
    }
}
