package javascript

import "strings"

// maxRenaming is how many steps a renamer may take: a quarter of a second.
const maxRenaming = 20_000_000

// NamesAreCheap reports whether esbuild, printing this source, can keep the names
// of variables in bounded time. Where a name is used around a scope it tries
// name2, name3 and so on, and looks for each in every scope around, which takes
// time by the cube of how deep they are nested: 6 kB of x=>x=>x=> take it 15
// seconds. With MinifyIdentifiers it gives short names instead, which takes no
// such time.
func (s *Source) NamesAreCheap() bool { return s.renaming() <= maxRenaming }

// renaming is a bound on the steps: for every name the candidates that may be
// taken, times the scopes around. Places where a name is used count like those
// where it is declared.
func (s *Source) renaming() int {
	numbered := map[string]int{} // name → how many of name2, name3 … there are
	seen := map[string]bool{}
	for _, t := range s.Tokens {
		if t.Kind != Ident || seen[s.TextOf(t)] {
			continue
		}
		text := s.TextOf(t)
		seen[text] = true
		if name := strings.TrimRight(text, "0123456789"); name != text {
			numbered[name]++
		}
	}
	steps := 0
	open := []int{0} // scopes begun in each bracket that is open
	depth := 0
	for i, t := range s.Tokens {
		word := s.TextOf(t)
		top := len(open) - 1
		switch {
		case s.begins(i) || word == ";":
			depth -= open[top]
			open[top] = 0
		case word == "=>":
			open[top]++
			depth++
		}
		switch {
		case t.Match > i && t.Kind != TemplateMiddle:
			open = append(open, 0)
			depth++
		case t.Match >= 0 && t.Match < i && top > 0:
			depth -= open[top] + 1
			open = open[:top]
		case t.Kind == Ident && s.wordAt(i-1) != ".":
			steps += (numbered[word] + depth) * depth
		}
		if steps > maxRenaming {
			break
		}
	}
	return steps
}
