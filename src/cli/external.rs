//! The flags about a user's own Redis.

use std::path::PathBuf;

use clap::Args;

use crate::app::Failure;
use crate::client::{RedisUrl, Secret};
use crate::topology::External;

#[derive(Debug, Args)]
pub(super) struct ExternalFlags {
    /// Run at this Redis instead of servers that the run starts: redis://USER:PASSWORD@HOST:PORT/DB,
    /// rediss:// for TLS, redis+sentinel://HOST:PORT,HOST:PORT/NAME, unix:///PATH. Repeated: independent nodes for a
    /// lock on a majority. With a password better in the variable, which no process list shows
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "OVERSOLD_URL",
        hide_env_values = true,
        value_delimiter = ' '
    )]
    url: Vec<Secret>,
    /// The certificates of whom to trust under --url rediss:// (PEM), instead of this machine's own
    #[arg(long, global = true, value_name = "FILE", env = "OVERSOLD_TLS_CA")]
    tls_ca: Option<PathBuf>,
    /// What all keys under --url begin with; each trial adds a name of its own
    #[arg(
        long,
        global = true,
        value_name = "PREFIX",
        default_value = "oversold:"
    )]
    prefix: String,
    /// Allow faults that change the Redis under --url for everybody who uses it
    #[arg(long, global = true)]
    allow_server_faults: bool,
}

impl ExternalFlags {
    /// Reads a URL. An error does not repeat it.
    pub(super) fn url(&self, url: &Secret) -> Result<RedisUrl, Failure> {
        let url: RedisUrl = url.reveal().parse().map_err(Failure::usage)?;
        let Some(file) = &self.tls_ca else {
            return Ok(url);
        };
        let authority = std::fs::read(file)
            .map_err(|why| Failure::usage(format!("`--tls-ca {}`: {why}", file.display())))?;
        Ok(url.trusting(&authority))
    }

    /// The user's own Redis, if one is named.
    pub(super) fn read(&self) -> Result<Option<External>, Failure> {
        let named = self.url.iter().filter(|url| !url.reveal().is_empty());
        let read = named.map(|url| self.url(url));
        let urls: Vec<RedisUrl> = read.collect::<Result<_, Failure>>()?;
        if self.prefix.is_empty() || self.prefix.contains(char::is_whitespace) {
            return Err(Failure::usage(
                "`--prefix` is what all keys begin with: some text without blanks, `oversold:`",
            ));
        }
        Ok((!urls.is_empty()).then(|| External {
            urls,
            prefix: self.prefix.clone(),
            allows_server_faults: self.allow_server_faults,
        }))
    }
}
