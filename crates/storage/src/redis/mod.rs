//! The store in Redis or Valkey, one server or its unix socket. Values are plain keys below the prefix; locks are keys
//! with a time to live and their holder's name, changed by scripts that compare it. The protocol is the `redis`
//! crate's, connections are ours (`connection`).

mod answer_bound;
mod connection;

use crate::fault::{Problem, StorageFault};
use crate::key::Key;
use crate::lease::{LEASE, Renewal};
use crate::owner::Owner;
use crate::{KEYS_LISTED_MAX, VALUE_BYTES_MAX};
use connection::Connections;
use redis::{Cmd, FromRedisValue, cmd};
use std::sync::Arc;
use tidegate_model::RedisStorage;

/// Before the names of locks. Keys never begin with a dot.
const LOCK: &str = ".lock:";
/// The server looks at so many keys of its whole database for each answer.
const SCANNED_AT_ONCE: usize = 1000;

/// Twenty million keys of whatever kind. A server that never comes to an end is not asked forever.
const SCANS_MAX: usize = 20_000;

/// The lock's time begins anew if it is still ours.
const RENEW: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
/// From a holder that is gone, if it still is that one's.
const TAKE_OVER: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[3], 'px', ARGV[2]) return 1 else return 0 end";

#[derive(Debug)]
pub(crate) struct Redis {
    shared: Arc<RedisShared>,
}

#[derive(Debug)]
struct RedisShared {
    connections: Connections,
    prefix: String,
}

impl Redis {
    /// Nothing is asked yet, so a server that is away for a moment does not keep the process from starting.
    pub(crate) fn new(settings: &RedisStorage) -> Result<Redis, StorageFault> {
        let connections = Connections::new(settings)?;
        Ok(Redis { shared: Arc::new(RedisShared { connections, prefix: settings.prefix.clone() }) })
    }

    pub(crate) fn describe(&self) -> String {
        self.shared.connections.describe()
    }

    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Vec<u8>>, Problem> {
        let value: Option<Vec<u8>> = self.shared.ask(cmd("GET").arg(self.shared.key(key))).await?;
        match value {
            Some(value) if value.len() > VALUE_BYTES_MAX => Err(Problem::ValueTooLong { bytes: value.len() }),
            value => Ok(value),
        }
    }

    pub(crate) async fn write(&self, key: &Key, value: &[u8]) -> Result<(), Problem> {
        let set = cmd("SET").arg(self.shared.key(key)).arg(value).to_owned();
        self.shared.ask(&set).await
    }

    pub(crate) async fn remove(&self, key: &Key) -> Result<(), Problem> {
        self.shared.ask(cmd("DEL").arg(self.shared.key(key))).await
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<String>, Problem> {
        let pattern = format!("{}*", escaped(&format!("{}{prefix}", self.shared.prefix)));
        let mut keys = Vec::new();
        let mut cursor = 0_u64;
        for scans in 1.. {
            let scan = cmd("SCAN").arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCANNED_AT_ONCE).to_owned();
            let (next, found): (u64, Vec<Vec<u8>>) = self.shared.ask(&scan).await?;
            // Locks and what others keep under the same prefix are no keys.
            let found = found.into_iter().filter_map(|name| String::from_utf8(name).ok());
            let found = found.filter_map(|name| Some(name.strip_prefix(&self.shared.prefix)?.to_owned()));
            keys.extend(found.filter(|key| key.starts_with(prefix) && Key::parse(key).is_ok()));
            if keys.len() > KEYS_LISTED_MAX || scans > SCANS_MAX {
                return Err(Problem::TooManyKeys);
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        keys.sort_unstable();
        // A scan may show a key twice.
        keys.dedup();
        Ok(keys)
    }

    pub(crate) async fn try_take(&self, name: &Key) -> Result<Option<RedisLease>, Problem> {
        let key = self.shared.lock_key(name);
        let holder = Owner::here().to_text();
        let lease = || RedisLease { shared: self.shared.clone(), name: name.clone(), holder: holder.clone() };
        let set = cmd("SET").arg(&key).arg(&holder).arg("NX").arg("PX").arg(lease_millis()).to_owned();
        let set: Option<String> = self.shared.ask(&set).await?;
        if set.is_some() {
            return Ok(Some(lease()));
        }
        let other: Option<String> = self.shared.ask(cmd("GET").arg(&key)).await?;
        match other {
            // The first answer was lost with its connection, and the question was asked again.
            Some(other) if other == holder => Ok(Some(lease())),
            Some(other) if Owner::parse(&other).is_some_and(|owner| owner.is_gone()) => {
                let is_ours = self.shared.run(TAKE_OVER, &key, &[&other, &lease_millis(), &holder]).await?;
                Ok(is_ours.then(lease))
            }
            Some(_) | None => Ok(None),
        }
    }

    pub(crate) async fn holder(&self, name: &Key) -> Result<Option<Owner>, Problem> {
        let holder: Option<String> = self.shared.ask(cmd("GET").arg(self.shared.lock_key(name))).await?;
        Ok(holder.and_then(|holder| Owner::parse(&holder)))
    }
}

impl RedisShared {
    fn key(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    fn lock_key(&self, name: &Key) -> String {
        format!("{}{LOCK}{name}", self.prefix)
    }

    async fn run(&self, script: &str, key: &str, arguments: &[&str]) -> Result<bool, Problem> {
        let command = cmd("EVAL").arg(script).arg(1).arg(key).arg(arguments).to_owned();
        let changed: i64 = self.ask(&command).await?;
        Ok(changed == 1)
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Problem> {
        let answer = self.connections.ask(command).await?;
        T::from_redis_value(answer).map_err(|error| self.connections.problem_of(&error.into()))
    }
}

fn lease_millis() -> String {
    LEASE.as_millis().to_string()
}

/// For `MATCH`, which reads patterns.
fn escaped(text: &str) -> String {
    let escaped = text.chars().map(|c| if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') { format!("\\{c}") } else { c.into() });
    escaped.collect::<Vec<String>>().concat()
}

/// A lock in Redis that this process holds.
#[derive(Debug)]
pub(crate) struct RedisLease {
    shared: Arc<RedisShared>,
    name: Key,
    holder: String,
}

impl RedisLease {
    pub(crate) async fn renew(&mut self) -> Result<Renewal, Problem> {
        let key = self.shared.lock_key(&self.name);
        let is_renewed = self.shared.run(RENEW, &key, &[&self.holder, &lease_millis()]).await?;
        Ok(if is_renewed { Renewal::Renewed } else { Renewal::Lost })
    }

    pub(crate) async fn release(self) -> Result<(), Problem> {
        let key = self.shared.lock_key(&self.name);
        self.shared.run(RELEASE, &key, &[&self.holder]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
