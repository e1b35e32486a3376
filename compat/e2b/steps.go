package e2b

import (
	"slices"
	"strconv"
	"strings"

	"haft"
)

// buildRequest is what a template is to be made of, as clients send it: also that of a Dockerfile, which they read.
type buildRequest struct {
	FromImage    string      `json:"fromImage"`
	FromTemplate string      `json:"fromTemplate"`
	Registry     any         `json:"fromImageRegistry"`
	StartCommand string      `json:"startCmd"`
	Steps        []buildStep `json:"steps"`
}

// A buildStep is a line of a Dockerfile.
type buildStep struct {
	Type string   `json:"type"`
	Args []string `json:"args"`
}

// images are those that stand for what sandboxes have anyway. Their tags may say no version: the interpreters are those
// of the server.
var images = []string{"e2bdev/base", "e2bdev/code-interpreter", "python", "node"}

// tags are the tags of images that say no version.
var tags = []string{"", "latest", "slim", "3", "3-slim", "lts", "lts-slim"}

// maxSteps bounds the steps of a template.
const maxSteps = 256

// packages returns the packages that a template installs, and refuses all else that it would do.
func (in buildRequest) packages() (haft.Requirements, error) {
	var needs haft.Requirements
	image, tag, _ := strings.Cut(strings.TrimPrefix(in.FromImage, "docker.io/library/"), ":")
	switch {
	case in.Registry != nil:
		return needs, invalid("FROM: images of other registries cannot be used")
	case in.FromImage != "" && (!slices.Contains(images, image) || !slices.Contains(tags, tag)):
		return needs, invalid("FROM: sandboxes have the programs of the server, and no images; write one of " +
			strings.Join(images, ", ") + " without a version")
	case in.StartCommand != "":
		return needs, invalid("CMD: a template starts nothing; run the command in the sandbox")
	case len(in.Steps) > maxSteps:
		return needs, invalid("a template has at most 256 steps")
	}
	for i, s := range in.Steps {
		where := "step " + strconv.Itoa(i+1) + ", " + stepName(s.Type) + ": "
		switch s.Type {
		case "ENV": // E2B has these variables only while it builds
		case "USER", "WORKDIR": // only RUN would see them
		case "RUN":
			if len(s.Args) == 0 {
				return needs, invalid(where + "the command is missing")
			}
			if why := addPackages(s.Args[0], &needs); why != "" {
				return needs, invalid(where + why)
			}
		default:
			return needs, invalid(where + noFiles)
		}
	}
	return needs, nil
}

// noFiles answers who wants files in a template.
const noFiles = "templates have packages and no files here: write files into a sandbox, and make a snapshot of it"

// stepName returns the type of a step as it can be shown.
func stepName(typ string) string {
	if slices.Contains([]string{"RUN", "ENV", "USER", "WORKDIR", "COPY", "ADD"}, typ) {
		return typ
	}
	return "unknown"
}

// maxPackages bounds the packages of pip, and those of npm, because each is compared with all before it. A
// configuration may have fewer.
const maxPackages = 256

// addPackages adds the packages that a command installs, or says why they are not known.
func addPackages(command string, needs *haft.Requirements) string {
	const only = "only pip install and npm install with names of packages can be run, with && between them; do the " +
		"rest in a sandbox, and make a snapshot of it"
	commands, ok := shellWords(command)
	if !ok {
		return only
	}
	for _, words := range commands {
		if len(words) > 0 && words[0] == "sudo" {
			words = words[1:]
		}
		if len(words) > 2 && (words[0] == "python" || words[0] == "python3") && words[1] == "-m" {
			words = words[2:]
		}
		if len(words) < 3 {
			return only
		}
		list := &needs.Pip
		switch program := words[0]; {
		case (program == "pip" || program == "pip3") && words[1] == "install":
		case program == "npm" && (words[1] == "install" || words[1] == "i"):
			list = &needs.NPM
		default:
			return only
		}
		for _, w := range words[2:] {
			if slices.Contains(installFlags, w) {
				continue
			}
			if strings.HasPrefix(w, "-") || strings.ContainsAny(w, "/:\\") && !strings.HasPrefix(w, "@") {
				return "only names of packages with versions can be installed: no files, addresses or other flags"
			}
			if slices.Contains(*list, w) {
				continue
			}
			if len(*list) >= maxPackages {
				return "a template has at most 256 packages"
			}
			*list = append(*list, w)
		}
	}
	return ""
}

// installFlags are the flags of pip and npm that do not change which packages are installed.
var installFlags = []string{"--user", "--no-cache-dir", "-q", "--quiet", "-U", "--upgrade", "--break-system-packages",
	"--disable-pip-version-check", "-g", "--global", "--save", "--save-dev", "-D", "--no-audit", "--no-fund", "-y"}

// shellWords splits a command line into commands with && between them, and those into words. It takes quotes, and
// refuses everything else that a shell looks at.
func shellWords(line string) (commands [][]string, ok bool) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	line = strings.ReplaceAll(strings.ReplaceAll(line, "\\\n", " "), "\n", " \x00 ")
	for rest := line; rest != ""; {
		r := rune(rest[0])
		if quote == 0 && strings.HasPrefix(rest, "&&") {
			end()
			commands, words, rest = append(commands, words), nil, rest[2:]
			continue
		}
		rest = rest[1:]
		switch {
		case strings.ContainsRune("`$\\\x00", r), quote == 0 && strings.ContainsRune(";|&<>(){}*?#~", r):
			return nil, false
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			end()
		default:
			word.WriteByte(byte(r))
			inWord = true
		}
	}
	end()
	return append(commands, words), quote == 0
}
