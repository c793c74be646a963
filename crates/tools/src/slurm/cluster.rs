//! A Slurm cluster on loopback, in a folder of its own.
//!
//! One authentication daemon, one controller and a node daemon a node, all on this host and as the
//! user that we are. Nothing of them outlives the value: each is a child that is ended by its id,
//! and all their state lies in a temporary folder.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long daemons may take to come up.
const START: Duration = Duration::from_secs(30);

/// How long a daemon may take to end when asked, before it is made to.
const END: Duration = Duration::from_secs(10);

/// The cluster; ends with the value.
#[derive(Debug)]
pub(super) struct Cluster {
    folder: tempfile::TempDir,
    // in the order of their start
    daemons: Vec<(&'static str, Child)>,
    nodes: Vec<String>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was to be done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A daemon ended, or did not come up.
    #[error("{daemon} {what}; its log ends:\n{log}")]
    Daemon {
        /// Which.
        daemon: &'static str,
        /// What happened to it.
        what: String,
        /// The end of its log.
        log: String,
    },
    /// A command of Slurm failed.
    #[error("{command}: {said}")]
    Command {
        /// The command.
        command: String,
        /// What it said.
        said: String,
    },
}

fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> ClusterError {
    let what = what.into();
    move |source| ClusterError::Io { what, source }
}

impl Cluster {
    /// Starts a cluster with so many nodes, and waits until they are idle.
    pub(super) fn start(nodes: u16) -> Result<Self, ClusterError> {
        let folder = tempfile::Builder::new()
            .prefix("slurm-")
            .tempdir()
            .map_err(io("a temporary folder"))?;
        // munged refuses a socket below a folder that others may not enter
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))
            .map_err(io("a temporary folder"))?;
        let mut cluster = Self {
            folder,
            daemons: Vec::new(),
            nodes: (1..=nodes).map(|node| format!("n{node}")).collect(),
        };
        cluster.start_munged()?;
        cluster.configure()?;
        cluster.daemon("slurmctld", "slurmctld", &["-D"])?;
        for node in cluster.nodes.clone() {
            cluster.daemon("slurmd", &format!("slurmd-{node}"), &["-D", "-N", &node])?;
        }
        cluster.await_idle()?;
        Ok(cluster)
    }

    /// The names of its nodes.
    pub(super) fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// A place for files of whoever uses the cluster.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command that talks to this cluster and no other.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        // settings of a cluster that the caller belongs to
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if ["SLURM_", "SBATCH_", "SRUN_"]
                .iter()
                .any(|p| name_text.starts_with(p))
            {
                command.env_remove(&name);
            }
        }
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(super) fn ask(&self, program: &str, args: &[&str]) -> Result<String, ClusterError> {
        let line = || format!("{program} {}", args.join(" "));
        let output = self
            .command(program)
            .args(args)
            .output()
            .map_err(io(line()))?;
        said(&line(), &output)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start_munged(&mut self) -> Result<(), ClusterError> {
        let folder = self.path("munge");
        fs::create_dir(&folder).map_err(io("munge's folder"))?;
        let key = folder.join("key");
        let mut random = [0; 128];
        let source = fs::File::open("/dev/urandom");
        source
            .and_then(|mut file| io::Read::read_exact(&mut file, &mut random))
            .and_then(|()| fs::write(&key, random))
            .and_then(|()| fs::set_permissions(&key, fs::Permissions::from_mode(0o600)))
            .map_err(io("munge's key"))?;
        let options: Vec<String> = [
            ("key-file", "key"),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("seed-file", "seed"),
            ("log-file", "log"),
        ]
        .iter()
        .map(|(option, file)| format!("--{option}={}", folder.join(file).display()))
        .collect();
        let mut args = vec!["--foreground", "--force"];
        args.extend(options.iter().map(String::as_str));
        self.daemon("munged", "munged", &args)?;
        let socket = folder.join("socket");
        self.wait("munged", "did not open its socket", |_| Ok(socket.exists()))
    }

    fn configure(&self) -> Result<(), ClusterError> {
        let text = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
        let name = text("/proc/sys/kernel/hostname").map_err(io("the host's name"))?;
        let host = name.split('.').next().unwrap_or(&name);
        let user = said(
            "id -un",
            &Command::new("id")
                .arg("-un")
                .output()
                .map_err(io("id -un"))?,
        )?;
        let ports = free_ports(self.nodes.len() + 1).map_err(io("free ports on loopback"))?;
        let folder = self.folder.path().display();
        let mut conf = format!(
            "ClusterName=loopback\n\
             SlurmctldHost={host}(127.0.0.1)\n\
             SlurmctldPort={}\n\
             AuthType=auth/munge\n\
             AuthInfo=socket={folder}/munge/socket\n\
             SlurmUser={user}\n\
             SlurmdUser={user}\n\
             StateSaveLocation={folder}/state\n\
             SlurmdSpoolDir={folder}/spool-%n\n\
             SlurmctldPidFile={folder}/slurmctld.pid\n\
             SlurmdPidFile={folder}/slurmd-%n.pid\n\
             ProctrackType=proctrack/pgid\n\
             TaskPlugin=task/none\n\
             SwitchType=switch/none\n\
             MpiDefault=none\n\
             JobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\n\
             SchedulerType=sched/backfill\n\
             SchedulerParameters=bf_interval=1,sched_interval=2\n\
             SelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\n\
             SlurmdParameters=config_overrides\n\
             ReturnToService=2\n",
            ports[0],
            user = user.trim(),
        );
        for (node, port) in self.nodes.iter().zip(&ports[1..]) {
            conf.push_str(&format!(
                "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1\n"
            ));
        }
        conf.push_str("PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP\n");
        fs::write(self.path("slurm.conf"), conf).map_err(io("slurm.conf"))
    }

    fn daemon(
        &mut self,
        program: &'static str,
        log: &str,
        args: &[&str],
    ) -> Result<(), ClusterError> {
        let log = fs::File::create(self.path(&format!("{log}.log"))).map_err(io("a log"))?;
        let errors = log.try_clone().map_err(io("a log"))?;
        let child = self
            .command(program_path(program))
            .args(args)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(io(program))?;
        self.daemons.push((program, child));
        Ok(())
    }

    fn await_idle(&mut self) -> Result<(), ClusterError> {
        let nodes = self.nodes.len();
        self.wait("slurmctld", "did not get its nodes idle", |cluster| {
            // fails until the controller listens
            let states = cluster
                .ask("sinfo", &["-h", "-N", "-o", "%t"])
                .unwrap_or_default();
            Ok(states.lines().filter(|state| *state == "idle").count() == nodes)
        })
    }

    /// Waits for something that the daemons are to bring about.
    fn wait(
        &mut self,
        daemon: &'static str,
        otherwise: &str,
        done: impl Fn(&Self) -> Result<bool, ClusterError>,
    ) -> Result<(), ClusterError> {
        let began = Instant::now();
        loop {
            if done(self)? {
                return Ok(());
            }
            let ended = self.daemons.iter_mut().find_map(|(name, child)| {
                let status = child.try_wait().ok().flatten()?;
                Some((*name, format!("ended: {status}")))
            });
            if let Some((daemon, what)) = ended {
                return Err(self.failed(daemon, what));
            }
            if began.elapsed() > START {
                return Err(self.failed(daemon, otherwise.to_owned()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn failed(&self, daemon: &'static str, what: String) -> ClusterError {
        let logs = fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten();
        let mut lines = Vec::new();
        for entry in logs {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(daemon) && name.ends_with(".log") {
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                let from = text.lines().count().saturating_sub(8);
                lines.extend(
                    text.lines()
                        .skip(from)
                        .map(|line| format!("  {name}: {line}")),
                );
            }
        }
        ClusterError::Daemon {
            daemon,
            what,
            log: lines.join("\n"),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // nodes before their controller, and that before what it authenticates by
        while let Some((_, mut child)) = self.daemons.pop() {
            // asked first, so that it ends what it has started; `kill` is how a shell asks
            let asked = Command::new("kill").arg(child.id().to_string()).status();
            let began = Instant::now();
            while asked.as_ref().is_ok_and(std::process::ExitStatus::success)
                && began.elapsed() < END
                && matches!(child.try_wait(), Ok(None))
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            // both fail where it has ended, which is what is wanted
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// What a command printed, where it succeeded.
pub(super) fn said(line: &str, output: &Output) -> Result<String, ClusterError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(ClusterError::Command {
            command: line.to_owned(),
            said: format!(
                "{}: {}{}",
                output.status,
                text(&output.stdout),
                text(&output.stderr)
            ),
        }),
    }
}

/// Where a program is: in `PATH`, or where daemons are and users' paths do not lead.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn program_path(program: &str) -> PathBuf {
    find(program).unwrap_or_else(|| program.into())
}

/// Ports that nobody listens on; all are held until all are known, so that they differ.
fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let held: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind(("127.0.0.1", 0)))
        .collect::<io::Result<_>>()?;
    held.iter()
        .map(|listener| listener.local_addr().map(|address| address.port()))
        .collect()
}
