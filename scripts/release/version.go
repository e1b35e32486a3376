package main

import "regexp"

// versions is a version as each kind of package writes it.
type versions struct {
	plain  string // in names of archives
	semver string // of npm
	python string // of PEP 440
	debian string
}

// versionsOf reads a version. One that is not a release such as 1.2.3 or v1.2.3 is a development
// version, which sorts before every release, with what it is called as its last part.
func versionsOf(text string) versions {
	if m := regexp.MustCompile(`^v?(\d+\.\d+\.\d+)$`).FindStringSubmatch(text); m != nil {
		return versions{m[1], m[1], m[1], m[1]}
	}
	name := regexp.MustCompile(`[^0-9A-Za-z]+`).ReplaceAllString(text, ".")
	return versions{plain: "0.0.0-dev." + name, semver: "0.0.0-dev." + "g" + name, python: "0.0.0.dev0+g" + name,
		debian: "0.0.0~dev+g" + name}
}
