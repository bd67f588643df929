package engine

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
	"github.com/drover-run/drover/job/secret"
)

// Where agents live on the machine of the command line, a program has its variables from
// the command that asked for them: SEED=1 drover run train.py. Two commands that differ in
// one are two, so what they had is compared, and kept without any value: by digests with a
// key that stays on this machine.

// keyName is the file of the key, in the state folder, or in the cache where there is none.
const keyName = "variables.key"

const keySize = 32

// inherited are the variables that a program of s would have from this command. Without a
// key, which Submit makes if it may, it is nil: then nothing is compared.
func (e *Engine) inherited(s job.Spec, make bool) *job.Inherited {
	key := e.variableKey(make)
	if key == nil {
		return nil
	}
	name := sha256.Sum256(append([]byte("drover variables "), key...))
	i := &job.Inherited{Key: hex.EncodeToString(name[:8]), Digests: map[string]string{}}
	for _, kv := range e.Caller.Environ {
		name, value, ok := strings.Cut(kv, "=")
		_, given := s.Env[name]
		_, kept := s.Secrets[name]
		if !ok || given || kept || !job.InheritedName(name) || ofTheSession(name) || secret.Evidence(name, value) != "" {
			continue
		}
		if _, twice := i.Digests[name]; !twice && len(i.Digests) == job.MaxInherited {
			continue
		}
		sum := hmac.New(sha256.New, key)
		sum.Write([]byte(kv))
		i.Digests[name] = hex.EncodeToString(sum.Sum(nil)[:8]) // of one that is said twice the last counts, as for the program
	}
	return i
}

// variableKey reads the key, and makes it where there is none and it is wanted. Of two that
// make it at once both have the first one's.
func (e *Engine) variableKey(wanted bool) []byte {
	folder := e.Caller.State
	if folder == "" {
		folder = e.Caller.Cache
	}
	if folder == "" {
		return nil
	}
	path := filepath.Join(folder, keyName)
	for range 2 {
		key, err := os.ReadFile(path)
		if err == nil && len(key) == keySize {
			return key
		}
		if !wanted || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil { // it was cut short, by a full disk: no digest was made with it
			_ = os.Remove(path)
		}
		if !makeKey(folder, path) {
			return nil
		}
	}
	return nil
}

// makeKey puts a new key in its place, unless there is one by now.
func makeKey(folder, path string) bool {
	if os.MkdirAll(folder, 0o700) != nil {
		return false
	}
	f, err := os.CreateTemp(folder, ".variables-")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	key := make([]byte, keySize)
	_, err = rand.Read(key)
	if err == nil {
		_, err = f.Write(key)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return false
	}
	err = os.Link(f.Name(), path)
	return err == nil || errors.Is(err, fs.ErrExist)
}

// Variables that differ between any two terminals, logins or jobs of a build server, and
// say nothing of what a program is to do. docs/how-to/name-a-task.md lists them.
var (
	sessionNames = []string{"_", "SHLVL", "PWD", "OLDPWD", "PPID", "BASHPID", "COLUMNS", "LINES", "TERM", "COLORTERM", "COLORFGBG", "TTY", "GPG_TTY", "WINDOWID", "WINDOW",
		"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "TMUX", "TMUX_PANE", "STY", "PS1", "PS2", "PS4", "PROMPT", "PROMPT_COMMAND", "RPROMPT", "PROMPT_EOL_MARK",
		"HISTFILE", "HISTSIZE", "HISTFILESIZE", "HISTCONTROL", "HISTTIMEFORMAT", "LS_COLORS", "LSCOLORS", "CLICOLOR", "CLICOLOR_FORCE", "NO_COLOR", "FORCE_COLOR",
		"PAGER", "MANPAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_PAGER", "BROWSER", "MAIL", "MAILCHECK", "SHELL", "USER", "LOGNAME", "DBUS_SESSION_BUS_ADDRESS", "SESSION_MANAGER",
		"GPG_AGENT_INFO", "GNOME_KEYRING_CONTROL", "KRB5CCNAME", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MANAGERPID", "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS",
		"DESKTOP_SESSION", "DESKTOP_STARTUP_ID", "XDG_ACTIVATION_TOKEN", "XDG_CURRENT_DESKTOP", "XDG_SEAT", "XDG_VTNR", "XDG_RUNTIME_DIR", "GDMSESSION", "SECURITYSESSIONID",
		"COMMAND_MODE", "INSIDE_EMACS", "WSL_INTEROP", "WSLENV", "NVIM", "VIMRUNTIME", "MYVIMRC", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER", "VIRTUAL_ENV_PROMPT",
		"HOSTNAME", "BUILD_ID", "BUILD_NUMBER", "BUILD_TAG", "BUILD_URL", "EXECUTOR_NUMBER", "MAKELEVEL", "MAKEFLAGS", "MFLAGS", "COPROC", "RANDOM", "SECONDS", "EPOCHSECONDS"}
	sessionPrefixes = []string{"SSH_", "XDG_SESSION_", "TERM_", "TERMINAL_", "VTE_", "KONSOLE_", "GNOME_TERMINAL_", "ITERM_", "KITTY_", "ALACRITTY_", "WEZTERM_", "WT_", "TERMINATOR_",
		"ZELLIJ", "BYOBU_", "VSCODE_", "LC_TERMINAL", "LESS", "SUDO_", "_OLD_VIRTUAL_", "_CE_", "__CF", "BASH_FUNC_", "DIRENV_", "STARSHIP_", "P9K_", "POWERLEVEL9K_", "FZF_",
		"DROVER_", "GITHUB_", "RUNNER_", "CI_", "JENKINS_", "BUILDKITE_", "CIRCLE_", "TRAVIS_", "SLURM", "SBATCH_", "PBS_", "LSB_", "FLUX_", "PMI_", "PMIX_", "OMPI_", "HYDI_", "XCURSOR_", "GTK_", "QT_"}
	// programNames are none of these, though they begin so: members of an array or of one
	// step are different ones by them.
	programNames = []string{"SLURM_ARRAY_TASK_ID", "SLURM_PROCID", "PBS_ARRAY_INDEX", "LSB_JOBINDEX"}
)

func ofTheSession(name string) bool {
	return slices.Contains(sessionNames, name) ||
		!slices.Contains(programNames, name) && slices.ContainsFunc(sessionPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// settingsKey is the digest of a spec's settings, and of the variables beside them: equal
// ones are equal commands, wherever they are typed.
func settingsKey(s job.Spec, i *job.Inherited) string {
	h := sha256.New()
	b, err := json.Marshal(option.Settings(s))
	if err != nil {
		return "" // numbers that no submit lets through
	}
	h.Write(b)
	if i != nil {
		h.Write([]byte(i.Key))
		for _, name := range slices.Sorted(maps.Keys(i.Digests)) {
			h.Write([]byte("\x00" + name + "\x00" + i.Digests[name]))
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// inheritedBy are the variables of the command that asked for a job's newest agents.
func inheritedBy(j job.Job, placed []protocol.Placed) *job.Inherited {
	if n := len(placed); n > 0 && placed[n-1].Inherited != nil {
		return placed[n-1].Inherited
	}
	return j.Inherited
}

// others are the names of variables that a job's program has otherwise than it would have
// from this command. What is given by --env and --secret is compared as that.
func otherVariables(mine *job.Inherited, s job.Spec, theirs *job.Inherited, o job.Spec) []string {
	for _, given := range []map[string]string{s.Env, s.Secrets, o.Env, o.Secrets} {
		if len(given) > 0 {
			mine, theirs = mine.Without(given), theirs.Without(given)
		}
	}
	names, _ := mine.Differ(theirs)
	return names
}

// placedWith are the variables to write down with agents that this command asks for; nil:
// they are the job's.
func (e *Engine) placedWith(o driver.Properties, j job.Job) *job.Inherited {
	if !o.Inherits() {
		return nil
	}
	mine := e.inherited(j.Spec, true)
	if names, known := mine.Differ(j.Inherited); known && len(names) == 0 {
		return nil
	}
	return mine
}
