//! An artifact on this disk.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use futures_util::{TryStreamExt as _, stream};
use threadline_artifacts::{Promised, Proof};
use threadline_contract::Fault;

use super::off_thread;
use crate::{
    Pending, ReadAt,
    pieces::{self, Check, PIECE, Pieces, Source},
};

pub(super) struct LocalReader(pub(super) Arc<Promised>);

impl ReadAt for LocalReader {
    fn read_at(&self, offset: u64, len: usize) -> Pending<'_, Result<Bytes, Fault>> {
        let promised = Arc::clone(&self.0);
        Box::pin(off_thread(move || {
            let reader = promised.prove()?;
            if len == 0 || offset >= reader.size() {
                return Ok(Bytes::new());
            }
            let len = len.min(PIECE) as u64;
            Ok(reader.read_range(offset, len)?.bytes.into())
        }))
    }

    fn pieces(self: Box<Self>, range: Range<u64>) -> Pieces {
        let Self(promised) = *self;
        let size = promised.unproven().size();
        if promised.proven().is_some() {
            return pieces::of_source(promised, range);
        }
        if range == (0..size) {
            let proof = promised.proof();
            return pieces::checked(pieces::of_source(promised, range), size, proof);
        }
        // A part proves nothing about itself.
        let proven = off_thread(move || {
            promised.prove()?;
            Ok(pieces::of_source(promised, range))
        });
        Box::pin(stream::once(proven).try_flatten())
    }
}

impl Source for Promised {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Fault> {
        Ok(self.unproven().read_into(buffer, offset)?)
    }

    fn read_held(&self, buffer: &mut [u8], offset: u64) -> Result<Option<usize>, Fault> {
        Ok(self.unproven().read_held(buffer, offset)?)
    }
}

impl Check for Proof {
    fn push(&mut self, bytes: &[u8]) {
        self.push(bytes);
    }

    fn finish(self) -> Result<(), Fault> {
        Ok(self.finish()?)
    }
}
