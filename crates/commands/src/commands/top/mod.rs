//! `tidegate top`: the running process, looked at once a second. `model` makes rates of two looks, `draw` puts them on
//! the screen; here are the threads, the keys, and the terminal's state, which is put back whatever happens.

mod draw;
mod figures;
mod model;

use super::{fail, reach};
use crate::cli::Running;
use draw::{Screen, draw};
use figures::Figures;
use model::{Sample, Sort, view};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use tidegate_admin::client::{Client, ClientFault};
use tokio::signal::unix::{SignalKind, signal};

const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// How long a key waits at most until it is seen, and a signal.
const KEY_PERIOD: Duration = Duration::from_millis(100);
/// Looks and signals that wait for the screen; a thread that has more waits.
const NEWS_MAX: usize = 4;
/// A process that has not answered for so long is said to be silent.
const SILENCE: Duration = Duration::from_secs(3);

enum News {
    Looked(Box<Sample>),
    Failed(String),
    /// SIGINT or SIGTERM.
    Stop,
}

pub fn run(running: &Running) -> ExitCode {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return fail("`top` needs a terminal\n  help: `tidegate status` prints a page, `tidegate status --json` is for programs");
    }
    let client = match reach::running(running) {
        Ok(client) => client,
        Err(message) => return fail(&message),
    };
    // Somebody who named the wrong address is to see that on a normal screen.
    if let Err(fault) = look(&client, Instant::now()) {
        return reach::failed(&fault);
    }
    match watch(client) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("the terminal cannot be used: {error}")),
    }
}

fn watch(client: Client) -> io::Result<()> {
    let (sender, news) = sync_channel(NEWS_MAX);
    let stop = sender.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        // Without signals `q` still ends it.
        let _ = tell_signals(&stop);
    })?;
    std::thread::Builder::new().name("looks".into()).spawn(move || keep_looking(&client, &sender))?;
    let mut terminal = ratatui::try_init()?;
    let outcome = Top::default().follow(&mut terminal, &news);
    ratatui::try_restore()?;
    outcome
}

fn look(client: &Client, begin: Instant) -> Result<Sample, ClientFault> {
    let (status, pools) = (client.fetch("/v1/status")?, client.fetch("/v1/pools")?);
    let figures = Figures::read(&client.fetch_text("/metrics")?);
    Ok(Sample { seconds: begin.elapsed().as_secs_f64(), status, pools, figures })
}

/// Ends with the screen.
fn keep_looking(client: &Client, sender: &SyncSender<News>) {
    let begin = Instant::now();
    loop {
        let news = match look(client, begin) {
            Ok(sample) => News::Looked(Box::new(sample)),
            Err(fault) => News::Failed(fault.to_string().lines().next().unwrap_or_default().to_owned()),
        };
        if sender.send(news).is_err() {
            return;
        }
        std::thread::sleep(LOOK_PERIOD);
    }
}

fn tell_signals(sender: &SyncSender<News>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok::<_, io::Error>(())
    })?;
    let _ = sender.send(News::Stop);
    Ok(())
}

/// What is on the screen and what it is made of.
#[derive(Default)]
struct Top {
    before: Option<Sample>,
    now: Option<Sample>,
    heard: Option<Instant>,
    fault: Option<String>,
    sort: Sort,
    first_row: usize,
    is_paused: bool,
}

impl Top {
    fn follow(mut self, terminal: &mut DefaultTerminal, news: &Receiver<News>) -> io::Result<()> {
        loop {
            loop {
                match news.try_recv() {
                    Ok(News::Looked(sample)) => self.take(*sample),
                    Ok(News::Failed(fault)) => self.fault = Some(fault),
                    Ok(News::Stop) | Err(TryRecvError::Disconnected) => return Ok(()),
                    Err(TryRecvError::Empty) => break,
                }
            }
            let screen = self.screen();
            terminal.draw(|frame| draw(frame, &screen))?;
            if event::poll(KEY_PERIOD)?
                && let Event::Key(key) = event::read()?
                && self.press(key)
            {
                return Ok(());
            }
        }
    }

    fn take(&mut self, sample: Sample) {
        self.heard = Some(Instant::now());
        self.fault = None;
        if !self.is_paused {
            self.before = self.now.replace(sample);
        }
    }

    fn screen(&self) -> Screen {
        let silent = self.heard.map(|heard| heard.elapsed()).filter(|silence| *silence > SILENCE);
        let note = match (&self.fault, silent) {
            (Some(fault), _) => Some(format!("{fault}; trying again")),
            (None, Some(silence)) => Some(format!("the process has not answered for {} s", silence.as_secs())),
            (None, None) => None,
        };
        let view = self.now.as_ref().map(|now| view(self.before.as_ref(), now, self.sort));
        Screen { view, note, sort: self.sort, first_row: self.first_row, is_paused: self.is_paused }
    }

    /// True when it is to end.
    fn press(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        let rows = self.now.as_ref().map_or(0, |now| now.pools.pools.iter().map(|pool| pool.servers.len()).sum::<usize>());
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            // In the terminal's raw mode Ctrl-C is a key and no signal.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Up => self.first_row = self.first_row.saturating_sub(1),
            KeyCode::Down => self.first_row = (self.first_row + 1).min(rows.saturating_sub(1)),
            // Every other key means nothing here.
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::model::{Sample, Sort};
    use super::{Figures, KeyCode, KeyEvent, KeyModifiers, Top};
    use crate::commands::status::tests::{pools, status};

    fn sample(seconds: f64) -> Sample {
        Sample { seconds, status: status(), pools: pools(), figures: Figures::default() }
    }

    #[test]
    fn keys_end_pause_sort_and_scroll() {
        let mut top = Top::default();
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        top.take(sample(1.0));
        assert!(!top.press(key(KeyCode::Char('s'))));
        assert_eq!(top.sort, Sort::Errors);
        for _ in 0..9 {
            assert!(!top.press(key(KeyCode::Down)));
        }
        assert_eq!(top.first_row, 2);
        assert!(!top.press(key(KeyCode::Up)));
        assert_eq!(top.first_row, 1);
        assert!(!top.press(key(KeyCode::Char('p'))));
        top.take(sample(2.0));
        assert!(top.is_paused && top.before.is_none(), "a paused screen stays");
        assert!(!top.press(key(KeyCode::Char('p'))));
        top.take(sample(3.0));
        assert!(top.before.is_some());
        assert!(top.press(key(KeyCode::Char('q'))));
        assert!(top.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!top.press(key(KeyCode::Char('c'))));
    }

    #[test]
    fn a_process_that_goes_away_is_said_and_comes_back() {
        let mut top = Top::default();
        top.take(sample(1.0));
        assert_eq!(top.screen().note, None);
        top.fault = Some("no process answers at 127.0.0.1:9180".into());
        let screen = top.screen();
        assert_eq!(screen.note.as_deref(), Some("no process answers at 127.0.0.1:9180; trying again"));
        assert!(screen.view.is_some(), "the last state stays");
        top.take(sample(2.0));
        assert_eq!(top.screen().note, None);
    }
}
