//! Who may log in with a password: hashes and what they may cost, files of users, and which answers are remembered; and
//! which programs may with a key.
//! Pure: bytes and `now` in, answers out; it opens no file, starts no thread and has no clock. Verifying takes as long
//! as whoever made the hash wanted it to take, so its caller (`proxy`) does that in threads of its own. Start at
//! [`Users`].

mod answers;
mod api_keys;
mod hash;
mod make;
mod users;

pub use answers::{ANSWER_LIFE, Answers, GOOD_ANSWERS_MAX, Key, Keyer, REFUSED_ANSWER_LIFE};
pub use api_keys::{API_KEY_BYTES_MAX, API_KEY_BYTES_MIN, ApiKey, ApiKeyFault, ApiKeys, api_key_line, make_api_key};
pub use hash::{
    ARGON2_MEMORY_KIB_MAX, ARGON2_WORK_KIB_MAX, BCRYPT_COST_MAX, HashFault, NotVerified, PasswordHash, SHA_CRYPT_ROUNDS_MAX,
};
pub use make::{Algorithm, CannotHash, make_hash};
pub use users::{FILE_BYTES_MAX, Found, LineFault, USER_NAME_BYTES_MAX, USERS_MAX, UserFault, Users};

/// Longer passwords are refused without a look. What SHA-crypt costs grows with the square of the length.
pub const PASSWORD_BYTES_MAX: usize = 1024;
