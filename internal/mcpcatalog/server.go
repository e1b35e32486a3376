package mcpcatalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
)

// A Choice is what a person says of an entry.
type Choice struct {
	// Values fill in variables, headers and arguments, by name.
	Values map[string]string
	// Remote prefers an address to a package.
	Remote bool
}

// An Install is what becomes of an entry.
type Install struct {
	Server haft.MCPServer
	// Secrets are the variables of the organisation that the server needs.
	Secrets []Input
	// Missing are the values that a person has to give; the server is not complete without them.
	Missing []Input

	choice Choice
	// marked are the texts that marks in values stand for: references to secrets, and values of the person.
	// An author cannot write either: a header of "{{ NAME }}" would send a secret of the organisation.
	marked []string
}

// Install makes a server of an entry. The command is npx or uvx with one package, which Haft locks and
// installs in the sandbox; what else an author wants to run is refused.
func (e Entry) Install(name string, c Choice) (*Install, error) {
	i := &Install{Server: haft.MCPServer{Name: name}, choice: c}
	text, err := json.Marshal(e)
	if err != nil || bytes.Contains(text, []byte(`\u0000`)) {
		return nil, e.refused("it has NUL in a text")
	}
	if e.Status == "deleted" {
		return nil, e.refused("the registry has deleted this version")
	}
	err = e.refused("there is no package and no address in it")
	for _, p := range e.Packages {
		if c.Remote && len(e.Remotes) > 0 {
			break
		}
		if err = i.fromPackage(e, p); err == nil {
			return i, nil
		}
	}
	for _, r := range e.Remotes {
		if remoteErr := i.fromRemote(e, r); remoteErr == nil {
			return i, nil
		} else if len(e.Packages) == 0 || c.Remote {
			err = remoteErr
		}
	}
	return nil, err
}

// refused says why an entry is not installed.
func (e Entry) refused(why string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: "the server cannot be added from the catalogue: " + why +
		"; add it by hand with: haft mcp-server add NAME -- COMMAND"}
}

// identifier is the name of a package of npm or PyPI, and release a version: neither can be a flag, a
// path or an address.
var (
	identifier = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*$`)
	})
	release     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]*$`) })
	serverName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9.-]+/[A-Za-z0-9._-]+$`) })
	placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]*)\}`) })
	notInNames  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9]+`) })
)

// fromPackage makes a command of a package.
func (i *Install) fromPackage(e Entry, p Package) error {
	runner := map[string]string{"npm": "npx", "pypi": "uvx"}[p.RegistryType]
	switch {
	case p.RegistryType == "oci":
		return e.refused("it is a container image, which Haft does not run")
	case runner == "":
		return e.refused("its kind of package is not npm or pypi")
	case p.RuntimeHint != "" && p.RuntimeHint != runner:
		return e.refused("it wants another program than " + runner)
	case p.Transport.Type != "" && p.Transport.Type != "stdio":
		return e.refused("its package does not speak on standard input and output")
	case !identifier().MatchString(p.Identifier) || p.Version != "" && !release().MatchString(p.Version):
		return e.refused("the name or version of its package is not one")
	case p.RegistryBaseURL != "" && !usualIndex(p.RegistryBaseURL):
		return e.refused("its package is in another index: configure that index, and add the server by hand")
	}
	for _, a := range p.RuntimeArguments {
		if a.Value != "-y" && a.Value != "--yes" && a.Name != "-y" && a.Name != "--yes" {
			return e.refused("it wants arguments of " + runner + ", which say what is installed and run")
		}
	}
	command := []string{runner}
	if runner == "npx" {
		command = append(command, "-y")
	}
	if p.Version != "" && p.Version != "latest" {
		p.Identifier += "@" + p.Version
	}
	command = append(command, p.Identifier)
	next := Install{Server: i.Server, choice: i.choice}
	for _, a := range p.PackageArguments {
		words, err := next.argument(e, a)
		if err != nil {
			return err
		}
		command = append(command, words...)
	}
	var err error
	if next.Server.Env, err = next.fillAll(e, p.EnvironmentVariables); err != nil {
		return err
	}
	next.Server.Command = command
	*i = next
	return nil
}

// usualIndex reports whether an address is of the index that everybody has: Haft asks the one that it is
// configured for.
func usualIndex(base string) bool {
	return slices.Contains([]string{"https://registry.npmjs.org", "https://pypi.org"}, strings.TrimSuffix(base, "/"))
}

// argument returns the words of an argument. A secret is refused: others on the machine read command lines.
func (i *Install) argument(e Entry, a Argument) ([]string, error) {
	name := a.Name
	if name == "" {
		name = a.ValueHint
	}
	secret := a.IsSecret
	for _, v := range a.Variables {
		secret = secret || v.IsSecret
	}
	if secret {
		return nil, e.refused("an argument of its program is a secret, which command lines show")
	}
	value, ok, err := i.value(e, a.Input, strings.TrimLeft(name, "-"))
	switch {
	case err != nil:
		return nil, err
	case a.Type == "named" && ok && value != "":
		return []string{a.Name, value}, nil
	case a.Type == "named" && a.IsRequired:
		return []string{a.Name}, nil
	case a.Type != "named" && ok:
		return []string{value}, nil
	}
	return nil, nil
}

// fromRemote makes a server of an address.
func (i *Install) fromRemote(e Entry, r Remote) error {
	next := Install{Server: i.Server, choice: i.choice}
	switch r.Type {
	case "streamable-http":
		next.Server.Transport = haft.MCPHTTP
	case "sse":
		next.Server.Transport = haft.MCPSSE
	default:
		return e.refused("its address is neither streamable-http nor sse")
	}
	for _, v := range r.Variables {
		if v.IsSecret {
			return e.refused("its address has a secret in it")
		}
	}
	var err error
	if next.Server.URL, _, err = next.value(e, Input{Value: r.URL, Variables: r.Variables}, "url"); err != nil {
		return err
	}
	if !strings.HasPrefix(next.Server.URL, "https://") {
		return e.refused("its address is not https")
	}
	if next.Server.Headers, err = next.fillAll(e, r.Headers); err != nil {
		return err
	}
	*i = next
	return nil
}

// fillAll returns the values of variables or headers.
func (i *Install) fillAll(e Entry, list []Input) (map[string]string, error) {
	values := map[string]string{}
	for _, in := range list {
		value, ok, err := i.value(e, in, in.Name)
		if err != nil {
			return nil, err
		}
		if ok {
			values[in.Name] = value
		}
	}
	return values, nil
}

// value returns the value of an input, if it has one.
func (i *Install) value(e Entry, in Input, name string) (value string, ok bool, err error) {
	value, ok = i.fill(in, name)
	allowed := 0
	for n, text := range i.marked {
		allowed += strings.Count(value, mark(n)) * brackets(text)
		value = strings.ReplaceAll(value, mark(n), text)
	}
	// An author could also write brackets that meet where a value of the person is empty.
	if brackets(value) > allowed {
		return "", false, e.refused("it refers to variables of yours with {{ }}")
	}
	return value, ok, nil
}

// brackets counts the brackets of references in a text.
func brackets(text string) int { return strings.Count(text, "{{") + strings.Count(text, "}}") }

// mark is the text that stands for a marked one.
func mark(n int) string { return fmt.Sprintf("\x00%d\x00", n) }

// addMark returns the mark of a text.
func (i *Install) addMark(text string) string {
	i.marked = append(i.marked, text)
	return mark(len(i.marked) - 1)
}

// fill returns the value of an input: that of the person, of the author, or the mark of a secret. It
// notes what is missing.
func (i *Install) fill(in Input, name string) (value string, ok bool) {
	if given, ok := i.choice.Values[name]; ok {
		return i.addMark(given), true
	}
	switch {
	case in.Value != "":
		return i.expand(in), true
	case in.IsSecret && (in.IsRequired || in.Default == ""):
		return i.reference(in, name), true
	case in.Default != "":
		return in.Default, true
	case in.IsRequired:
		in.Name = name
		i.Missing = append(i.Missing, in)
	}
	return "", false
}

// expand fills in the variables of a value: {name}.
func (i *Install) expand(in Input) string {
	return placeholder().ReplaceAllStringFunc(in.Value, func(text string) string {
		v, ok := in.Variables[text[1:len(text)-1]]
		if !ok {
			return text
		}
		v.IsRequired, v.Value, v.Variables = true, "", nil // variables have none of their own
		value, _ := i.fill(v, text[1:len(text)-1])
		return value
	})
}

// reference notes that a secret is needed, and returns the mark of the reference to it. The secret is called
// MCP_SERVER__NAME: an author cannot choose one that the organisation has for something else, or for another
// server.
func (i *Install) reference(in Input, name string) string {
	part := func(text string) string {
		return strings.ToUpper(strings.Trim(notInNames().ReplaceAllString(text, "_"), "_"))
	}
	in.Name = "MCP_" + part(i.Server.Name) + "__" + part(name)
	if !slices.ContainsFunc(i.Secrets, func(s Input) bool { return s.Name == in.Name }) {
		i.Secrets = append(i.Secrets, in)
	}
	return i.addMark("{{ " + in.Name + " }}")
}

// Text says what is added, for people: never a value of a variable.
func (i *Install) Text() string {
	s := i.Server
	lines := []string{"command  " + strings.Join(s.Command, " ")}
	if s.URL != "" {
		lines = []string{"address  " + s.URL}
	}
	if names := slices.Sorted(maps.Keys(s.Env)); len(names) > 0 {
		lines = append(lines, "variables  "+strings.Join(names, ", "))
	}
	if names := slices.Sorted(maps.Keys(s.Headers)); len(names) > 0 {
		lines = append(lines, "headers  "+strings.Join(names, ", "))
	}
	for _, in := range i.Secrets {
		lines = append(lines, "secret  "+in.Name)
	}
	if len(s.Command) > 0 {
		network := strings.Join(s.Network, ", ")
		if network == "" {
			network = "none; name hosts with --network"
		}
		lines = append(lines, "network  "+network)
	}
	return strings.Join(lines, "\n")
}
