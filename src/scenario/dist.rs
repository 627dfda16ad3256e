//! How long something takes: a distribution of durations.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::clock::nanos;
use crate::seed::Seed;

/// The 0.99 quantile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

/// How many sigmas above the median a log-normal draw is cut (2 in a million lie above), so that
/// a run's length has a bound.
const CUT: f64 = 2.0 * Z99;

/// How many draws a quantile is taken from, and the seed of these draws.
const SAMPLE: usize = 100_000;
const SAMPLE_SEED: Seed = Seed(1);

/// A distribution of durations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dist {
    /// Always the same.
    Constant {
        /// That one.
        ns: u64,
    },
    /// Each duration between two is as likely.
    Uniform {
        /// The shortest.
        low_ns: u64,
        /// The longest.
        high_ns: u64,
    },
    /// Log-normal, as most service times are, given by two of its quantiles.
    Lognormal {
        /// The median.
        p50_ns: u64,
        /// The 99th percentile.
        p99_ns: u64,
    },
    /// "2 in 100 take 6 to 8 s, the rest ...", each draw on its own.
    Mix(Vec<Part>),
    /// A cache that expires: exactly one of every so many draws is a miss, at a drawn place.
    Cache {
        /// One in how many.
        miss_one_in: u32,
        /// How long a miss takes.
        miss: Box<Dist>,
        /// How long a hit takes.
        hit: Box<Dist>,
    },
}

/// One part of a mixture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// How much of the whole: the shares of a mixture add up to 1.
    pub share: f64,
    /// What this part looks like.
    pub of: Dist,
}

/// Draws from a distribution, with a stream of random numbers of its own.
#[derive(Debug)]
pub struct Sampler {
    dist: Dist,
    rng: ChaCha8Rng,
    /// For a cache: the place in this round, and the place of its miss.
    place: u32,
    miss_at: u32,
}

impl Sampler {
    /// A sampler that has drawn nothing yet.
    pub fn new(dist: &Dist, rng: ChaCha8Rng) -> Sampler {
        Sampler {
            dist: dist.clone(),
            rng,
            place: 0,
            miss_at: 0,
        }
    }

    /// The next draw.
    pub fn draw(&mut self) -> Duration {
        let Dist::Cache {
            miss_one_in,
            miss,
            hit,
        } = &self.dist
        else {
            return self.dist.sample(&mut self.rng);
        };
        if self.place == 0 {
            self.miss_at = self.rng.random_range(0..*miss_one_in);
        }
        let of = if self.place == self.miss_at {
            miss
        } else {
            hit
        };
        self.place = (self.place + 1) % miss_one_in;
        of.sample(&mut self.rng)
    }
}

impl Dist {
    /// Always `duration`.
    pub fn constant(duration: Duration) -> Dist {
        Dist::Constant {
            ns: nanos(duration),
        }
    }

    /// Anything between two ends.
    pub fn uniform(low: Duration, high: Duration) -> Dist {
        Dist::Uniform {
            low_ns: nanos(low),
            high_ns: nanos(high),
        }
    }

    fn sample(&self, rng: &mut impl Rng) -> Duration {
        Duration::from_nanos(match self {
            Dist::Constant { ns } => *ns,
            Dist::Uniform { low_ns, high_ns } => rng.random_range(*low_ns..=*high_ns),
            Dist::Lognormal { p50_ns, p99_ns } => {
                let normal: f64 = StandardNormal.sample(rng);
                let ratio = *p99_ns as f64 / *p50_ns as f64;
                (*p50_ns as f64 * ratio.powf(normal.min(CUT) / Z99)) as u64
            }
            Dist::Mix(parts) => {
                let mut left: f64 = rng.random();
                let chosen = parts.iter().find(|part| {
                    left -= part.share;
                    left < 0.0
                });
                return chosen
                    .or(parts.last())
                    .map_or(Duration::ZERO, |part| part.of.sample(rng));
            }
            // Only a whole section or pause is a cache, and its sampler keeps the place.
            Dist::Cache { hit, .. } => return hit.sample(rng),
        })
    }

    /// The longest draw there can be.
    pub fn longest(&self) -> Duration {
        match self {
            Dist::Constant { ns } => Duration::from_nanos(*ns),
            Dist::Uniform { high_ns, .. } => Duration::from_nanos(*high_ns),
            Dist::Lognormal { p50_ns, p99_ns } => {
                let ratio = *p99_ns as f64 / *p50_ns as f64;
                Duration::from_nanos((*p50_ns as f64 * ratio.powf(CUT / Z99)) as u64)
            }
            Dist::Mix(parts) => parts
                .iter()
                .map(|part| part.of.longest())
                .max()
                .unwrap_or_default(),
            Dist::Cache { miss, hit, .. } => miss.longest().max(hit.longest()),
        }
    }

    /// The duration that so large a part (0 to 1) of all draws does not exceed. Taken from a sample
    /// of 100,000 draws under a fixed seed, so it is always the same; a mixture or a cache has no
    /// formula for it.
    pub fn quantile(&self, part: f64) -> Duration {
        let mut draws = self.draws();
        draws.sort_unstable();
        let place = (part * SAMPLE as f64).ceil() as usize;
        draws[place.clamp(1, SAMPLE) - 1]
    }

    /// The mean, of the same sample.
    pub fn mean(&self) -> Duration {
        self.draws().iter().sum::<Duration>() / SAMPLE as u32
    }

    fn draws(&self) -> Vec<Duration> {
        let mut sampler = Sampler::new(self, SAMPLE_SEED.stream("quantile", 0));
        (0..SAMPLE).map(|_| sampler.draw()).collect()
    }

    /// The same shape with every duration multiplied.
    pub fn scaled(&self, by: f64) -> Dist {
        let scale = |ns: &u64| (*ns as f64 * by).round() as u64;
        match self {
            Dist::Constant { ns } => Dist::Constant { ns: scale(ns) },
            Dist::Uniform { low_ns, high_ns } => Dist::Uniform {
                low_ns: scale(low_ns),
                high_ns: scale(high_ns),
            },
            Dist::Lognormal { p50_ns, p99_ns } => Dist::Lognormal {
                p50_ns: scale(p50_ns).max(1),
                p99_ns: scale(p99_ns).max(1),
            },
            Dist::Mix(parts) => Dist::Mix(
                parts
                    .iter()
                    .map(|part| Part {
                        share: part.share,
                        of: part.of.scaled(by),
                    })
                    .collect(),
            ),
            Dist::Cache {
                miss_one_in,
                miss,
                hit,
            } => Dist::Cache {
                miss_one_in: *miss_one_in,
                miss: Box::new(miss.scaled(by)),
                hit: Box::new(hit.scaled(by)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantile(dist: &Dist, q: f64) -> f64 {
        dist.quantile(q).as_secs_f64()
    }

    #[test]
    fn a_quantile_is_that_of_the_distribution_and_always_the_same() {
        let constant = Dist::constant(Duration::from_millis(50));
        assert_eq!(quantile(&constant, 0.99), 0.050);
        assert_eq!(constant.mean(), Duration::from_millis(50));
        let uniform = Dist::Uniform {
            low_ns: 6_000_000_000,
            high_ns: 8_000_000_000,
        };
        assert!((quantile(&uniform, 0.99) - 7.98).abs() < 0.005);
        assert!((uniform.mean().as_secs_f64() - 7.0).abs() < 0.01);
        assert_eq!(uniform.quantile(0.5), uniform.quantile(0.5));
        assert_eq!(uniform.quantile(1.0), uniform.quantile(2.0));
        assert!(uniform.quantile(0.0) >= Duration::from_secs(6));
    }

    #[test]
    fn a_lognormal_has_the_quantiles_that_it_was_given() {
        let dist = Dist::Lognormal {
            p50_ns: 40_000_000,
            p99_ns: 120_000_000,
        };
        assert!((quantile(&dist, 0.5) - 0.040).abs() < 0.002);
        assert!((quantile(&dist, 0.99) - 0.120).abs() < 0.010);
    }

    #[test]
    fn a_mixture_keeps_its_shares_and_knows_its_longest() {
        let second = 1_000_000_000;
        let dist = Dist::Mix(vec![
            Part {
                share: 0.9,
                of: Dist::Constant { ns: 1 },
            },
            Part {
                share: 0.1,
                of: Dist::Uniform {
                    low_ns: 6 * second,
                    high_ns: 8 * second,
                },
            },
        ]);
        assert!(quantile(&dist, 0.88) < 1.0 && quantile(&dist, 0.92) >= 6.0);
        assert_eq!(dist.longest(), Duration::from_secs(8));
        assert_eq!(dist.scaled(0.5).longest(), Duration::from_secs(4));
    }

    #[test]
    fn a_cache_misses_exactly_once_in_each_round() {
        let dist = Dist::Cache {
            miss_one_in: 20,
            miss: Box::new(Dist::Constant { ns: 9 }),
            hit: Box::new(Dist::Constant { ns: 1 }),
        };
        let mut sampler = Sampler::new(&dist, Seed(3).stream("test", 0));
        for _ in 0..50 {
            let round: Vec<_> = (0..20).map(|_| sampler.draw()).collect();
            let misses = round.iter().filter(|draw| draw.as_nanos() == 9).count();
            assert_eq!(misses, 1);
        }
    }
}
