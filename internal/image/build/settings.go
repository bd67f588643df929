package build

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
)

// expandToOne expands an instruction's words to one.
func (s *stage) expandToOne(in image.Instruction) (string, error) {
	return s.newExpander().expandToWord(in.Rest)
}

func (s *stage) setEnv(in image.Instruction) error {
	e := s.newExpander() // of before this line, also for the second pair on it
	pairs, err := e.readPairs(in.Rest)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		name, err := e.expandToWord(p[0])
		if err != nil {
			return err
		}
		value, err := e.expandToWord(p[1])
		if err != nil {
			return err
		}
		if name == "" {
			return errBuilder
		}
		env := slices.Clone(s.cfg.Config.Env)
		i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		if i < 0 {
			env = append(env, "")
			i = len(env) - 1
		}
		env[i] = name + "=" + value
		s.cfg.Config.Env = env
	}
	return nil
}

func (s *stage) setLabel(in image.Instruction) error {
	e := s.newExpander()
	pairs, err := e.readPairs(in.Rest)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		name, err := e.expandToWord(p[0])
		if err != nil {
			return err
		}
		value, err := e.expandToWord(p[1])
		if err != nil {
			return err
		}
		if s.cfg.Config.Labels == nil {
			s.cfg.Config.Labels = map[string]string{}
		}
		s.cfg.Config.Labels[name] = value
	}
	return nil
}

// setWorkdir also makes the folder, as root's.
func (s *stage) setWorkdir(in image.Instruction) error {
	dir, err := s.expandToOne(in)
	if err != nil {
		return err
	}
	if dir == "" {
		return fault.New(fault.Invalid, "", "read WORKDIR: it is empty")
	}
	if !path.IsAbs(dir) {
		dir = path.Join("/", s.cfg.Config.WorkingDir, dir)
	}
	dir = path.Clean(dir)
	s.cfg.Config.WorkingDir = dir
	t, err := s.currentTree()
	if err != nil {
		return err
	}
	at, err := t.resolveLinks(dir)
	if err != nil {
		return err
	}
	c := changes{}
	if err := c.addFolders(t, at, 0, 0, s.newest); err != nil {
		return err
	}
	return s.addLayer(in, c)
}

func (s *stage) setUser(in image.Instruction) error {
	if len(strings.Fields(in.Rest)) != 1 {
		return errBuilder
	}
	user, err := s.expandToOne(in)
	s.cfg.Config.User = user
	return err
}

// commandList is the list of an exec form, or the shell's for a text.
func (s *stage) commandList(in image.Instruction) []string {
	if in.Exec {
		return slices.Clone(in.JSON)
	}
	if in.Rest == "" {
		return nil
	}
	shell := s.cfg.Config.Shell
	if len(shell) == 0 {
		shell = []string{"/bin/sh", "-c"}
	}
	return append(slices.Clone(shell), in.Rest)
}

func (s *stage) setCmd(in image.Instruction) error {
	s.cfg.Config.Cmd, s.cmdSet = s.commandList(in), true
	return nil
}

func (s *stage) setEntrypoint(in image.Instruction) error {
	s.cfg.Config.Entrypoint = s.commandList(in)
	if !s.cmdSet { // the base's was for the base's entrypoint
		s.cfg.Config.Cmd = nil
	}
	return nil
}

func (s *stage) setStopSignal(in image.Instruction) error {
	signal, err := s.expandToOne(in)
	if err == nil && !strings.HasPrefix(signal, "SIG") {
		err = errBuilder // numbers and short names are looked up
	}
	s.cfg.Config.StopSignal = signal
	return err
}

func (s *stage) setExpose(in image.Instruction) error {
	words, err := s.newExpander().expandToWords(in.Rest)
	if err != nil {
		return err
	}
	for _, w := range words {
		ports, proto, ok := strings.Cut(w, "/")
		if !ok {
			proto = "tcp"
		}
		from, to, span := strings.Cut(ports, "-")
		if !span {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 16)
		last, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || last < first || !slices.Contains([]string{"tcp", "udp", "sctp"}, proto) {
			return errBuilder
		}
		if s.cfg.Config.ExposedPorts == nil {
			s.cfg.Config.ExposedPorts = map[string]struct{}{}
		}
		for p := first; p <= last; p++ {
			s.cfg.Config.ExposedPorts[strconv.FormatUint(p, 10)+"/"+proto] = struct{}{}
		}
	}
	return nil
}
