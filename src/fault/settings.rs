//! The settings of a server that one fault changes: set as they were when it is over, and also, without
//! anybody waiting for it, when it is dropped. (What they were, the machine remembers.)

use std::sync::Arc;

use super::Faults;
use crate::client::{Conn, Outcome};
use crate::topology::Machine;

/// Settings of one server that a fault has changed.
pub(super) struct Settings {
    faults: Arc<Faults>,
    node: Arc<Machine>,
    /// In the order in which they were changed.
    changed: Vec<&'static str>,
    /// They are not wanted any more, and perhaps not all restored yet.
    released: bool,
}

impl Settings {
    /// None is changed yet.
    pub(super) fn of(faults: &Arc<Faults>, node: &Arc<Machine>) -> Settings {
        Settings {
            faults: Arc::clone(faults),
            node: Arc::clone(node),
            changed: Vec::new(),
            released: false,
        }
    }

    /// Changes one. None if the server does not let it be changed.
    pub(super) async fn set(&mut self, setting: &'static str, to: &str) -> Option<()> {
        // Remembered first: whether it was done is not known if the answer is lost.
        self.changed.push(setting);
        self.node.settings.change(setting, to).await.ok()
    }

    /// Sets all of them as they were, the last one first. None if that failed; what cannot be restored
    /// now is restored when the run ends, or told.
    pub(super) async fn restore(mut self) -> Option<()> {
        self.release();
        let restored = restore(&self.node, self.changed.clone()).await;
        // Not before: who is ended meanwhile has them restored beside.
        self.changed.clear();
        restored
    }

    fn release(&mut self) {
        if !std::mem::replace(&mut self.released, true) {
            for setting in &self.changed {
                self.node.settings.release(setting);
            }
        }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        self.release();
        let changed = std::mem::take(&mut self.changed);
        let node = Arc::clone(&self.node);
        if !changed.is_empty() && tokio::runtime::Handle::try_current().is_ok() {
            self.faults.undo(async move {
                // What cannot be restored now is restored when the run ends, or told.
                let _ = restore(&node, changed).await;
            });
        }
    }
}

async fn restore(node: &Machine, changed: Vec<&'static str>) -> Option<()> {
    let mut all = Some(());
    for setting in changed.into_iter().rev() {
        let done = node.settings.restore(setting).await.ok();
        all = all.and(done);
    }
    all
}

/// The error that a write is answered with, if it is refused.
pub(super) async fn refusal(conn: &Conn, probe: &str) -> Option<String> {
    let mut set = redis::cmd("SET");
    set.arg(probe).arg(1).arg("PX").arg(1);
    match conn.call::<()>(&set).await {
        Outcome::Refused(error) => Some(error),
        _ => None,
    }
}
