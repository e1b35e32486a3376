package review

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"haft/internal/shell"
)

// isShell reports whether a command is a shell.
func isShell(name string) bool {
	return slices.Contains([]string{"sh", "bash", "zsh", "dash", "ksh", "ash", "rbash"}, name)
}

// isInterpreter reports whether a command runs code that it is given.
func isInterpreter(name string) bool {
	return isShell(name) ||
		slices.Contains([]string{"python", "python2", "python3", "perl", "ruby", "node", "php", "lua", "source", "."},
			name)
}

// fetches reports whether a command gets something from elsewhere.
func fetches(name string) bool {
	return slices.Contains([]string{"curl", "wget", "fetch", "aria2c", "lynx", "http", "nc", "ncat", "scp", "ftp"},
		name)
}

// wrappers run the command that follows.
var wrappers = []string{"sudo", "command", "builtin", "exec", "env", "nohup", "time", "nice", "busybox", "timeout",
	"setsid", "stdbuf", "doas", "ionice", "xargs"}

// command returns the name of what a call runs and its arguments, without what
// stands before it: sudo -u x env A=b curl is curl.
func (s *shellScript) command(c *syntax.CallExpr) (string, []word) {
	var all []word
	for _, a := range c.Args {
		all = append(all, s.word(a))
	}
	for len(all) > 1 && all[0].known && slices.Contains(wrappers, path.Base(all[0].text)) {
		wrapper := path.Base(all[0].text)
		i := 1
		for i < len(all)-1 && (strings.HasPrefix(all[i].text, "-") || strings.Contains(all[i].text, "=") ||
			i == 1 && wrapper == "timeout") {
			if wrapper == "sudo" && (all[i].text == "-u" || all[i].text == "-g") ||
				wrapper == "xargs" && slices.Contains([]string{"-I", "-n", "-P", "-L", "-d"}, all[i].text) {
				i++
			}
			i++
		}
		all = all[min(i, len(all)-1):]
	}
	if !all[0].known {
		return "", all[1:]
	}
	return path.Base(all[0].text), all[1:]
}

// call looks at one command.
func (s *shellScript) call(c *syntax.CallExpr) {
	for _, a := range c.Args {
		if w := s.word(a); w.known && len(w.text) < 40 {
			s.wrapper(path.Base(w.text), a)
			if slices.Contains(wrappers, path.Base(w.text)) {
				continue
			}
		}
		break
	}
	first := s.word(c.Args[0])
	name, args := s.command(c)
	// A variable or a text in pieces is no way to write a name. A path may be in
	// quotes.
	if first.encoded && (!strings.Contains(first.text, "/") || strings.Contains(first.text, " ") ||
		len(first.substs) > 0) {
		s.add("bash-encoded-command", c)
	}
	if mixesScripts(first.text) {
		s.add(ruleMixed, c)
	}
	if !first.known && !forwardsArguments(c.Args[0]) {
		s.mark("computed", c)
		if s.runs(first, c) == "" {
			s.add("bash-command-computed", c)
		}
	}
	if first.known && strings.Contains(first.text, " ") { // cat${IFS}/etc/passwd
		s.nested(first.text, c)
	}
	if s.downloaded[strings.TrimPrefix(printed(c.Args[0]), "./")] || s.downloaded[printed(c.Args[0])] {
		s.add("bash-remote-code", c)
	}
	if name != "" {
		s.named(name, args, c)
	}
	for _, a := range args {
		for _, sub := range a.substs {
			if fetches(name) && s.prints(sub.Stmts) == "environ" {
				s.add("bash-environ", c)
			}
		}
	}
}

// wrapper looks at what stands before a command.
func (s *shellScript) wrapper(name string, node syntax.Node) {
	switch name {
	case "sudo", "su", "doas", "pkexec":
		s.add("bash-privilege", node)
	case "nohup", "setsid", "disown":
		s.add("bash-daemon", node)
	}
}

// forwardsArguments reports whether a word hands on the arguments of the script or a list
// that holds a command, as honest scripts do.
func forwardsArguments(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	q, ok := w.Parts[0].(*syntax.DblQuoted)
	if !ok || len(q.Parts) != 1 {
		return false
	}
	p, ok := q.Parts[0].(*syntax.ParamExp)
	return ok && p.Param != nil && (p.Param.Value == "@" || p.Index != nil)
}

// named looks at a command by its name.
func (s *shellScript) named(name string, args []word, c *syntax.CallExpr) {
	has := func(words ...string) bool {
		return slices.ContainsFunc(args, func(a word) bool { return slices.Contains(words, a.text) && a.known })
	}
	switch {
	case name == "eval":
		s.evaluates(args, c)
	case isInterpreter(name), s.n.several && shell.RunsCode(name):
		s.interprets(name, args, c)
	case name == "rm", name == "shred":
		s.deletes(args, c)
	case name == "find" && has("-delete") && len(args) > 0 && wholeTree(args[0].text):
		s.add("bash-delete-root", c)
	case name == "dd":
		for _, a := range args {
			if of, ok := strings.CutPrefix(a.lead, "of="); ok && rawDevice(of) {
				s.add("bash-device", c)
			}
		}
	case strings.HasPrefix(name, "mkfs"), name == "wipefs", name == "fdisk", name == "parted":
		s.add("bash-device", c)
	case name == "chmod", name == "setcap", name == "install":
		s.permits(name, args, c)
	case name == "nc", name == "ncat", name == "netcat", name == "socat", name == "telnet":
		s.connects(name, args, c)
	case name == "mkfifo", name == "mknod":
		s.mark("fifo", c)
	case name == "crontab" && !has("-l"), name == "at", name == "launchctl", name == "systemctl" && has("enable"),
		name == "update-rc.d":
		s.add("bash-startup", c)
	case name == "history" && has("-c", "-w", "-d"), name == "unset" && has("HISTFILE"):
		s.add("bash-history", c)
	case name == "alias":
		for _, a := range args {
			if of, _, ok := strings.Cut(a.lead, "="); ok && isTrusted(of) {
				s.add("bash-alias", c)
			}
		}
	case name == "trap" && len(args) > 1 && args[0].known && args[0].text == "" &&
		has("TERM", "INT", "HUP", "SIGTERM", "SIGINT", "SIGHUP", "15", "2"):
		s.add("bash-trap", c)
	case fetches(name):
		s.fetch(name, args, c)
	default:
		s.installs(name, args, c)
	}
}

// evaluates looks at what eval runs.
func (s *shellScript) evaluates(args []word, c *syntax.CallExpr) {
	var text []string
	for _, a := range args {
		if rule := s.runs(a, c); rule != "" {
			return
		}
		if !a.known {
			s.add("bash-eval", c)
			return
		}
		if a.encoded {
			s.add("bash-encoded-command", c)
		}
		text = append(text, a.text)
	}
	s.add("bash-eval-constant", c)
	s.nested(strings.Join(text, " "), c)
}

// runs notes that the output of a command in a word is run as code, and returns
// the rule for it.
func (s *shellScript) runs(w word, node syntax.Node) string {
	for _, sub := range w.substs {
		switch s.prints(sub.Stmts) {
		case "remote":
			s.add("bash-remote-code", node)
			return "bash-remote-code"
		case "decoded":
			s.add("bash-decoded-code", node)
			return "bash-decoded-code"
		}
	}
	return ""
}

// prints says what kind of text commands print: remote, decoded, environ or "".
func (s *shellScript) prints(stmts []*syntax.Stmt) string {
	kind := ""
	for _, st := range stmts {
		syntax.Walk(st, func(n syntax.Node) bool {
			if n == nil || !s.step(n) {
				return false
			}
			c, ok := n.(*syntax.CallExpr)
			if !ok || len(c.Args) == 0 {
				return true
			}
			name, args := s.command(c)
			switch got := outputKind(name, args); {
			case got == "remote":
				kind = got
			case got != "" && kind == "":
				kind = got
			}
			return true
		})
	}
	return kind
}

// outputKind says what kind of text a command prints.
func outputKind(name string, args []word) string {
	has := func(pattern string) bool {
		return slices.ContainsFunc(args, func(a word) bool {
			ok, err := path.Match(pattern, a.text)
			return err == nil && ok
		})
	}
	switch name {
	case "base64", "base32", "openssl":
		if has("-d") || has("-D") || has("--decode") || has("-di") || has("-*d*") && name != "openssl" {
			return "decoded"
		}
	case "xxd":
		if has("-*r*") {
			return "decoded"
		}
	case "gunzip", "zcat", "bzcat", "xzcat", "rev", "uudecode", "tac":
		return "decoded"
	case "gzip", "bzip2", "xz":
		if has("-*d*") {
			return "decoded"
		}
	case "tr", "sed", "awk", "cut":
		return "changed"
	case "env", "printenv":
		if len(args) == 0 {
			return "environ"
		}
	case "export", "declare":
		if has("-p") {
			return "environ"
		}
	}
	if fetches(name) {
		return "remote"
	}
	return ""
}

// interprets looks at what a shell or another interpreter is given.
func (s *shellScript) interprets(name string, args []word, c *syntax.CallExpr) {
	if isShell(name) {
		s.mark("shell", c)
	}
	if s.n.several && !s.sourcesScript(name, args, c) {
		s.add(ruleRunsFile, c)
	}
	for i, a := range args {
		if isShell(name) && strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "--") &&
			strings.Contains(a.text, "i") {
			s.mark("interactive", c)
		}
		for _, p := range a.procs {
			if s.prints(p.Stmts) == "remote" {
				s.add(map[bool]string{true: "bash-source-remote", false: "bash-remote-code"}[name == "source" ||
					name == "."], c)
			} else {
				s.add("bash-eval", c)
			}
		}
		code := a.text == "-c" || isShell(name) && strings.HasPrefix(a.text, "-") && strings.HasSuffix(a.text, "c") &&
			len(a.text) < 6 || a.text == "-e" && (name == "perl" || name == "ruby" || name == "node")
		if code && i+1 < len(args) {
			next := args[i+1]
			switch {
			case s.runs(next, c) != "":
			case !next.known:
				s.add("bash-eval", c)
			case isShell(name):
				s.nested(next.text, c)
			}
			return
		}
	}
	if len(args) > 0 {
		script := c.Args[len(c.Args)-len(args)]
		for i, a := range args {
			if !strings.HasPrefix(a.text, "-") {
				script = c.Args[len(c.Args)-len(args)+i]
				break
			}
		}
		if s.downloaded[printed(script)] {
			s.add("bash-remote-code", c)
		} else if (name == "source" || name == ".") && !args[0].known && len(args[0].procs) == 0 &&
			s.runs(args[0], c) == "" {
			s.add("bash-source-computed", c)
		}
	}
}

// sourcesScript reports whether a command reads a file that was reviewed as Bash.
func (s *shellScript) sourcesScript(name string, args []word, c *syntax.CallExpr) bool {
	if name != "source" && name != "." || len(args) == 0 {
		return false
	}
	file, written := args[0].text, c.Args[len(c.Args)-len(args)]
	for _, part := range written.Parts {
		switch part.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
		default:
			return false // it could be several words, the first of which is the file
		}
	}
	if !args[0].known { // "$dir"/lib.sh
		file = printed(written)
	}
	return slices.Contains([]string{".sh", ".bash"}, path.Ext(file))
}

// wholeTree reports whether a path is everything that matters.
func wholeTree(p string) bool {
	p = strings.TrimSuffix(p, "*")
	if p != "/" && p != "" {
		p = strings.TrimSuffix(p, "/")
	}
	return slices.Contains([]string{"/", "~", "/home", "/etc", "/usr", "/var", "/bin", "/lib", "/boot", "/root", "/opt",
		"/srv", "/sbin"}, p)
}

// deletes looks at what rm deletes.
func (s *shellScript) deletes(args []word, c *syntax.CallExpr) {
	recursive := slices.ContainsFunc(args, func(a word) bool {
		return a.text == "--recursive" || a.text == "--no-preserve-root" ||
			strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "--") && strings.ContainsAny(a.text, "rR")
	})
	for _, a := range args {
		switch {
		case strings.Contains(a.lead, "bash_history"):
			s.add("bash-history", c)
		case !recursive || strings.HasPrefix(a.text, "-"):
		case a.text != "" && wholeTree(a.text), !a.known && a.lead == "~" && wholeTree(a.shown):
			s.add("bash-delete-root", c)
		case a.variable && (a.rest == "" && !a.quoted || strings.Trim(a.rest, "/*") == "" && a.rest != ""):
			s.add("bash-delete-variable", c)
		}
	}
}

// mode is a numeric mode of chmod.
var mode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-7]{3,4}$`) })

// permits looks at modes of files.
func (s *shellScript) permits(name string, args []word, c *syntax.CallExpr) {
	if name == "setcap" {
		s.add("bash-setuid", c)
		return
	}
	for _, a := range args {
		t := strings.TrimPrefix(a.text, "--mode=")
		switch {
		case mode().MatchString(t) && name == "chmod":
			if len(t) == 4 && strings.ContainsAny(t[:1], "24567") {
				s.add("bash-setuid", c)
			} else if strings.ContainsAny(t[len(t)-1:], "2367") {
				s.add("bash-permissions", c)
			}
		case strings.Contains(t, "+") && strings.Contains(t[strings.Index(t, "+"):], "s") && len(t) < 12 &&
			name == "chmod" && !strings.Contains(t, "/") && !strings.Contains(t, "."):
			s.add("bash-setuid", c)
		case t == "a+w" || t == "o+w" || t == "a+rw" || t == "a+rwx" || t == "+rwx" || t == "ugo+rwx" || t == "o+rw" ||
			t == "o+rwx":
			s.add("bash-permissions", c)
		}
	}
}

// connects looks at programs that make connections of their own.
func (s *shellScript) connects(name string, args []word, c *syntax.CallExpr) {
	s.mark("nc", c)
	for _, a := range args {
		t := a.lead
		switch {
		case name != "socat" && strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "--") &&
			strings.ContainsAny(t, "ec"), t == "--exec", t == "--sh-exec",
			name == "socat" && (strings.Contains(strings.ToUpper(t), "EXEC:") ||
				strings.Contains(strings.ToUpper(t), "SYSTEM:")):
			s.add("bash-reverse-shell", c)
		case name != "socat" && strings.HasPrefix(t, "-") && strings.Contains(t, "l") && !strings.HasPrefix(t, "--"),
			strings.Contains(strings.ToUpper(t), "-LISTEN:"), t == "--listen":
			s.add("bash-listener", c)
		}
	}
}

// fetch looks at what is downloaded, and how.
func (s *shellScript) fetch(name string, args []word, c *syntax.CallExpr) {
	if name == "nc" || name == "ncat" {
		s.connects(name, args, c)
		return
	}
	for i, a := range args {
		t := a.text
		short := strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "--") && strings.Trim(t, "-"+letters) == ""
		switch {
		case name == "curl" && (t == "--insecure" || short && strings.Contains(t, "k")), t == "--no-check-certificate":
			s.add("bash-tls", c)
		}
		out := name == "curl" && (short && strings.HasSuffix(t, "o") || t == "--output") ||
			name == "wget" && (short && strings.HasSuffix(t, "O") || t == "--output-document")
		if out && i+1 < len(args) {
			if file := printed(c.Args[len(c.Args)-len(args)+i+1]); file != "-" {
				s.downloaded[file] = true
			}
		}
		if strings.Contains(t, "://") && (name == "wget" || slices.ContainsFunc(args, func(a word) bool {
			return strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "--") &&
				strings.Contains(a.text, "O") || a.text == "--remote-name"
		})) {
			if base := path.Base(t); base != "/" && base != "." {
				s.downloaded[base] = true
			}
		}
	}
}

// installs looks for package managers.
func (s *shellScript) installs(name string, args []word, c *syntax.CallExpr) {
	var verbs []string
	switch name {
	case "pip", "pip3", "apt", "apt-get", "yum", "dnf", "brew", "gem", "cargo", "go", "pipx", "conda":
		verbs = []string{"install", "get"}
	case "npm", "yarn", "pnpm":
		verbs = []string{"install", "i", "add"}
	case "apk", "snap":
		verbs = []string{"add", "install"}
	}
	for _, a := range args {
		if slices.Contains(verbs, a.text) {
			s.add("bash-install", c)
		}
	}
	if name == "disown" || name == "su" || name == "pkexec" {
		s.wrapper(name, c)
	}
}

// pipeline looks at what runs what another command prints.
func (s *shellScript) pipeline(b *syntax.BinaryCmd) {
	last, ok := b.Y.Cmd.(*syntax.CallExpr)
	if !ok || len(last.Args) == 0 {
		return
	}
	name, args := s.command(last)
	sends, runs := fetches(name) || name == "socat", isInterpreter(name) && readsStdin(name, args)
	if !sends && !runs {
		return
	}
	from := s.prints([]*syntax.Stmt{b.X})
	if from == "environ" && sends {
		s.add("bash-environ", b)
	}
	if !runs {
		return
	}
	switch from {
	case "remote":
		s.add("bash-remote-code", b)
	case "decoded":
		s.add("bash-decoded-code", b)
	default:
		s.add("bash-piped-code", b)
		if text, ok := s.echoed(b.X); ok && isShell(name) {
			s.nested(text, b)
		}
	}
}

// readsStdin reports whether an interpreter reads its code from standard input.
func readsStdin(name string, args []word) bool {
	for _, a := range args {
		switch {
		case a.text == "-" || a.text == "-s" || a.text == "/dev/stdin":
			return true
		case strings.HasPrefix(a.text, "-") && a.text != "-c" && a.text != "-e" && a.text != "-m" && a.text != "-ne" &&
			a.text != "-pe" && a.text != "-lc" && a.text != "-nle" && a.text != "-p":
		default:
			return false
		}
	}
	return name != "source" && name != "."
}

// echoed returns the constant that a statement prints.
func (s *shellScript) echoed(st *syntax.Stmt) (string, bool) {
	c, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) < 2 {
		return "", false
	}
	if name := c.Args[0].Lit(); name != "echo" && name != "printf" {
		return "", false
	}
	var words []string
	for _, a := range c.Args[1:] {
		w := s.word(a)
		if !w.known {
			return "", false
		}
		text, _ := ansiC(w.text)
		words = append(words, text)
	}
	return strings.Join(words, " "), true
}
