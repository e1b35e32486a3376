package cli

import (
	"os"
	"slices"

	"github.com/spf13/pflag"

	"haft/internal/exit"
	"haft/internal/userconfig"
)

// setFromConfig sets flags from the profile of the user's configuration, where neither the command
// line nor the environment has them. They do not count as given. Where to work is one setting of several
// flags: if the command line or the environment has one of them, none of the profile's counts, so that
// the key of one server is never sent to another.
func (p *Profile) setFromConfig(f *pflag.FlagSet) error {
	config, err := userconfig.Load(userconfig.Path(os.Getenv))
	if err != nil {
		return exit.Misuse(err)
	}
	settings, err := config.Profile(p.named)
	if err != nil {
		return exit.Misuse(err)
	}
	place := []string{"data", "database", "server", "key-file"}
	elsewhere := os.Getenv("HAFT_KEY") != "" && !f.Changed("profile") || slices.ContainsFunc(place,
		func(name string) bool {
			return f.Changed(name) || os.Getenv(variable(name)) != ""
		})
	for name, value := range settings {
		fl := f.Lookup(name)
		if fl == nil || fl.Changed || os.Getenv(variable(name)) != "" || elsewhere && slices.Contains(place, name) ||
			name == "print" && p.JSON {
			continue
		}
		if err := fl.Value.Set(value); err != nil {
			return exit.Misuse(err)
		}
		p.ownKey = p.ownKey || name == "key-file"
	}
	return nil
}
