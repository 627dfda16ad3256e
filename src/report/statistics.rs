//! How sure a share of trials is, and how a few numbers are spread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};

/// A share of trials with its 95 % interval by Clopper and Pearson (Biometrika 26, 1934).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// How many.
    pub count: u64,
    /// Of how many.
    pub of: u64,
    /// The interval's lower end, from 0 to 1.
    pub low: f64,
    /// The interval's upper end, from 0 to 1.
    pub high: f64,
}

impl Share {
    /// The share of `count` in `of`.
    pub fn new(count: u64, of: u64) -> Share {
        let quantile = |p, a: u64, b: u64| {
            Beta::new(a as f64, b as f64).map_or(f64::NAN, |beta| beta.inverse_cdf(p))
        };
        let low = match count {
            0 => 0.0,
            n => quantile(0.025, n, of - n + 1),
        };
        let high = match of - count {
            0 => 1.0,
            rest => quantile(0.975, count + 1, rest),
        };
        Share {
            count,
            of,
            low,
            high,
        }
    }

    /// `20 of 20 (100 %; 95 % interval 83 to 100 %)`
    pub fn sentence(&self) -> String {
        let percent = |part: f64| format!("{:.0}", part * 100.0);
        format!(
            "{} of {} ({} %; 95 % interval {} to {} %)",
            self.count,
            self.of,
            percent(self.count as f64 / self.of.max(1) as f64),
            percent(self.low),
            percent(self.high)
        )
    }
}

/// The smallest, the quartiles (by linear interpolation) and the largest of some numbers.
pub fn spread(numbers: &[i64]) -> Option<[f64; 5]> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    let at = |q: f64| {
        let place = q * last as f64;
        let (low, high) = (place.floor() as usize, place.ceil() as usize);
        sorted[low] as f64 + (sorted[high] - sorted[low]) as f64 * place.fract()
    };
    Some([at(0.0), at(0.25), at(0.5), at(0.75), at(1.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_tables() {
        let close = |share: Share, low: f64, high: f64| {
            assert!(
                (share.low - low).abs() < 5e-4 && (share.high - high).abs() < 5e-4,
                "{share:?}"
            );
        };
        close(Share::new(20, 20), 0.8316, 1.0);
        close(Share::new(0, 20), 0.0, 0.1684);
        close(Share::new(6, 40), 0.0571, 0.2984);
    }

    #[test]
    fn the_spread_of_five_numbers_is_these_numbers() {
        assert_eq!(spread(&[5, 1, 4, 2, 3]), Some([1.0, 2.0, 3.0, 4.0, 5.0]));
        assert_eq!(spread(&[]), None);
    }
}
