//! One seed, many named streams of random numbers. A choice draws from the stream of its own
//! purpose and place, so how instances interleave never changes what each of them draws.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// The seed of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream for one purpose (`"section"`, `"think"`, ...) at one place (an instance or a
    /// worker). ChaCha8 is a named algorithm: unlike a library's standard generator it gives the
    /// same numbers in its next release, so a stored seed keeps its meaning.
    pub fn stream(self, purpose: &str, place: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.0);
        rng.set_stream(fnv1a(purpose, place));
        rng
    }
}

/// FNV-1a, 64 bit: stable over builds, which the standard hasher does not promise.
fn fnv1a(purpose: &str, place: u64) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = purpose.bytes().chain(place.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn equal_names_give_equal_numbers_and_other_names_others() {
        let draw = |purpose, place| Seed(7).stream(purpose, place).random::<u64>();
        assert_eq!(draw("section", 3), draw("section", 3));
        assert_ne!(draw("section", 3), draw("section", 4));
        assert_ne!(draw("section", 3), draw("think", 3));
    }
}
