package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

// An answer is what a question of the first hour is answered with. The index of the documents has the same questions.
type answer struct {
	question string
	commands []string
	page     string // below docs
	also     string // words that people use for it besides
}

// answers lists the questions of the index, docs/README.md.
func answers() []answer {
	return []answer{
		{"How do I run or call a tool?", []string{"haft run FILE --arg NAME=VALUE", "haft tool add FILE",
			"haft call TOOL --arg NAME=VALUE"}, "service.md", "execute start invoke register keep argument arguments"},
		{"How do I give a tool a file, and get files back?", []string{"haft call TOOL --file FILE --out DIR"},
			"howto.md#files", "upload download attach input output artifact made"},
		{"How do I see what ran?", []string{"haft calls list", "haft calls show ID", "haft logs", "haft top"},
			"howto.md#see-what-ran", "history log past happened events printed debug debugging trace why failed fails"},
		{"How do I stop a call?", []string{"haft calls cancel ID"}, "cli.md#haft-calls-cancel",
			"cancel abort end kill interrupt hangs stuck"},
		{"How do I test a tool?", []string{"haft test DIR", "haft run FILE --arg NAME=VALUE"}, "testing.md",
			"tests testing mock check assert pytest"},
		{"How do I add a package?", []string{"haft tool add FILE --requirement NAME"}, "howto.md#packages",
			"install pip npm module import dependency requirements numpy library"},
		{"How do I give a tool a secret?", []string{"haft secret set NAME < file"}, "howto.md#secrets",
			"api key token password credential environment variable env"},
		{"How do I limit time and memory?", []string{"haft tool add FILE --timeout 5s --memory 256MiB"},
			"troubleshooting.md", "timeout cpu slow long runaway limits"},
		{"How do I limit how often a tool is called?", []string{"haft tool add FILE --rate 60/m"},
			"service.md#rates-and-retries", "rate limits throttle minute second times quota retry retries"},
		{"How do I change, roll back or remove a tool?", []string{"haft tool add FILE", "haft tool rollback NAME",
			"haft tool remove NAME"}, "service.md", "edit update version undo delete old"},
		{"How do I let a tool reach a host?", []string{"haft tool add FILE --network HOST"}, "howto.md#the-network",
			"network internet http url dns connect access outside"},
		{"How does a person approve a call?", []string{"haft approvals list", "haft approvals approve ID"},
			"service.md#approvals", "approval agree human confirm pending deny refuse"},
		{"Who may call what?", []string{"haft policy explain TOOL", "haft policy set FILE"}, "howto.md#policies",
			"permission denied allow role rule user policy"},
		{"How do several people use one Haft?", []string{"haft serve", "haft key add --for-user NAME --role ROLE"},
			"deploy.md#commands-on-a-server",
			"person team colleague user users share access login account api key keys two"},
		{"How do I run a server in production?", []string{"haft serve --addr ADDRESS --host NAME"}, "deploy.md",
			"deploy deployment systemd docker container kubernetes service host tls https remote"},
		{"How do I back up and restore?", []string{"haft backup DIR", "haft restore FROM"}, "howto.md#backup",
			"backup copy disaster recover move machine"},
		{"How does a model use the tools?", []string{"haft chat", "haft agent add NAME --model MODEL",
			"haft tool list"}, "agents.md", "gpt openai llm claude anthropic gemini ollama chat talk agent models"},
		{"How do I connect Claude, Cursor or VS Code?", []string{"haft mcp install cursor --agent NAME"},
			"mcp.md#add-haft-to-a-client", "mcp client editor vscode windsurf zed claude-code install"},
		{"How do I use the tools in LangChain, or in my own loop?", []string{"haft tool list", "haft serve"},
			"getting-started.md#5-connect-your-agent", "framework openai anthropic crewai python typescript agent sdk"},
		{"What does this message mean, and what can my machine do?", []string{"haft doctor"}, "troubleshooting.md",
			"error isolation reduced namespaces sandbox docker problem help fail"},
	}
}

const (
	// maxFound is how many answers, and how many commands, a search of the help prints.
	maxFound = 3
	// rareShare and coveredShare are what an entry must have to be found: the weight of one word that is in this part
	// of the entries, and this part of the words that are asked for. Without them any common word finds something.
	rareShare, coveredShare = 1. / 4, 1. / 3
)

// searchHelp prints the answers and the commands that fit the words of a question best, and reports whether there are
// any. Commands come first if the best has more of the words than the best answer, as an answer that has one word of
// several is a guess.
func searchHelp(w io.Writer, root *cobra.Command, words []string) bool {
	asked := specific(wordsOf(strings.Join(words, " ")))
	found, answered := best(answers(), asked, func(a answer) string {
		return a.question + " " + a.also + " " + withoutArguments(strings.Join(a.commands, " "))
	})
	commands, named := best(leaves(root), asked, func(c *cobra.Command) string {
		return c.CommandPath() + " " + c.Short
	})
	if len(found)+len(commands) == 0 {
		return false
	}
	parts := []func(){func() { printAnswers(w, found) }, func() { printCommands(w, commands) }}
	if named > answered {
		slices.Reverse(parts)
	}
	for _, show := range parts {
		show()
	}
	fmt.Fprintln(w, "More: haft help COMMAND, and the index of all pages in docs/README.md")
	return true
}

// printAnswers prints answers with their commands and pages.
func printAnswers(w io.Writer, found []answer) {
	for _, a := range found {
		fmt.Fprintf(w, "%s\n  %s\n  docs/%s\n\n", a.question, strings.Join(a.commands, "\n  "), a.page)
	}
}

// printCommands prints commands in a table.
func printCommands(w io.Writer, commands []*cobra.Command) {
	if len(commands) == 0 {
		return
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands {
		fmt.Fprintf(tab, "%s\t%s\n", c.CommandPath()+strings.TrimPrefix(c.Use, c.Name()), c.Short)
	}
	_ = tab.Flush() // the writer is the terminal
	fmt.Fprintln(w)
}

// leaves returns the commands that do something, hidden ones left out.
func leaves(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			all = append(all, leaves(sub)...)
		}
	}
	if len(all) == 0 && c.HasParent() {
		return []*cobra.Command{c}
	}
	return all
}

// best returns the entries that have most of the words, the best first, none with less than half of what the best
// has, and how many of the words the best has. A word that many entries have counts less.
func best[T any](all []T, asked []string, text func(T) string) (found []T, most int) {
	scores, counts, order := make([]float64, len(all)), make([]int, len(all)), make([]int, len(all))
	texts := make([][]string, len(all))
	for i, entry := range all {
		texts[i], order[i] = wordsOf(text(entry)), i
	}
	for _, word := range asked {
		has := func(words []string) bool { return slices.Contains(words, word) }
		several := 0
		for _, words := range texts {
			if has(words) {
				several++
			}
		}
		for i, words := range texts {
			if has(words) {
				scores[i] += math.Log(float64(2*len(all)) / float64(several))
				counts[i]++
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	least := max(math.Log(2/rareShare), scores[order[0]]/2)
	for _, i := range order[:min(len(order), maxFound)] {
		if scores[i] >= least && float64(counts[i]) >= coveredShare*float64(len(asked)) {
			found, most = append(found, all[i]), max(most, counts[i])
		}
	}
	return found, most
}

// wordsOf returns the words of a text that say what it is about, once each and without their endings.
func wordsOf(text string) []string {
	var words []string
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) }) {
		const common = " haft the an of to in on at it is are do does how what which can for and or my me with " +
			"its that this from be by if not as give get has have one all use name no too there where when so we " +
			"you should would could want need "
		if stem := wordStem(w); len(w) > 1 && !strings.Contains(common, " "+w+" ") && !slices.Contains(words, stem) {
			words = append(words, stem)
		}
	}
	return words
}

// specific leaves out the words that all of the help is about, unless there are no others.
func specific(words []string) []string {
	rest := slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		return slices.Contains([]string{"tool", "call", "run"}, w)
	})
	if len(rest) == 0 {
		return words
	}
	return rest
}

// withoutArguments leaves out the words of a command that stand for its arguments, such as FILE.
func withoutArguments(command string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(command), func(w string) bool {
		return w == strings.ToUpper(w)
	}), " ")
}

// wordStem cuts the ending of a word, so that package, packages and packaged are one.
func wordStem(w string) string {
	for _, end := range []string{"ing", "als", "al", "ies", "es", "ed", "e", "s", "y"} {
		rest, ok := strings.CutSuffix(w, end)
		if !ok || len(rest) < 3 {
			continue
		}
		last := rest[len(rest)-1:]
		if (end == "ing" || end == "ed") && strings.HasSuffix(rest, last+last) && last != "l" && last != "s" {
			return strings.TrimSuffix(rest, last) // running, stopped
		}
		return rest
	}
	return w
}
