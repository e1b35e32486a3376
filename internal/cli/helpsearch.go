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
		{"How do I give a tool a file, and get files back?", []string{"haft call TOOL --file FILE --out DIR"},
			"howto.md#files", "upload download attach input output artifact made"},
		{"How do I see what ran?", []string{"haft calls list", "haft calls show ID", "haft logs", "haft top"},
			"howto.md#see-what-ran", "history log run past happened events printed"},
		{"How do I add a package?", []string{"haft tool add FILE --requirement NAME"}, "howto.md#packages",
			"install pip npm module import dependency requirements numpy library"},
		{"How do I give a tool a secret?", []string{"haft secret set NAME < file"}, "howto.md#secrets",
			"api key token password credential environment variable env"},
		{"How do I limit time and memory?", []string{"haft tool add FILE --timeout 5s --memory 256MiB"},
			"troubleshooting.md", "timeout cpu slow long runaway limits"},
		{"How do I change, roll back or remove a tool?", []string{"haft tool add FILE", "haft tool rollback NAME",
			"haft tool remove NAME"}, "service.md", "edit update version undo delete old"},
		{"How do I let a tool reach a host?", []string{"haft tool add FILE --network HOST"}, "howto.md#the-network",
			"network internet http url dns connect access outside"},
		{"How does a person approve a call?", []string{"haft approvals list", "haft approvals approve ID"},
			"service.md#approvals", "approval agree human confirm pending deny refuse"},
		{"Who may call what?", []string{"haft policy explain TOOL", "haft policy set FILE"}, "howto.md#policies",
			"permission denied allow role rule user policy"},
		{"How do I connect Claude, Cursor or VS Code?", []string{"haft mcp install cursor --agent NAME"},
			"mcp.md#add-haft-to-a-client", "mcp client editor vscode windsurf zed claude-code install"},
		{"How do I use the tools in LangChain, or in my own loop?", []string{"haft tool list", "haft serve"},
			"getting-started.md#5-connect-your-agent", "framework openai anthropic crewai python typescript agent sdk"},
		{"What does this message mean, and what can my machine do?", []string{"haft doctor"}, "troubleshooting.md",
			"error isolation reduced namespaces sandbox docker problem help fail"},
	}
}

// maxFound is how many answers, and how many commands, a search of the help prints.
const maxFound = 3

// searchHelp prints the answers and the commands that fit the words of a question best, and reports whether there are
// any.
func searchHelp(w io.Writer, root *cobra.Command, words []string) bool {
	asked := wordsOf(strings.Join(words, " "))
	found := best(answers(), asked, func(a answer) string {
		return strings.Join(append([]string{a.question, a.also}, a.commands...), " ")
	})
	commands := best(leaves(root), asked, func(c *cobra.Command) string { return c.CommandPath() + " " + c.Short })
	if len(found)+len(commands) == 0 {
		return false
	}
	for _, a := range found {
		fmt.Fprintf(w, "%s\n  %s\n  docs/%s\n\n", a.question, strings.Join(a.commands, "\n  "), a.page)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands {
		fmt.Fprintf(tab, "%s\t%s\n", c.CommandPath()+strings.TrimPrefix(c.Use, c.Name()), c.Short)
	}
	_ = tab.Flush() // the writer is the terminal
	fmt.Fprintln(w, "\nMore: haft help COMMAND, and the index of all pages in docs/README.md")
	return true
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

// best returns the entries that have most of the words, the best first, and none with less than half of what the best
// has. A word that many entries have counts less.
func best[T any](all []T, asked []string, text func(T) string) []T {
	scores, order := make([]float64, len(all)), make([]int, len(all))
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
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	var found []T
	for _, i := range order[:min(len(order), maxFound)] {
		if scores[i] > 0 && scores[i] >= scores[order[0]]/2 {
			found = append(found, all[i])
		}
	}
	return found
}

// wordsOf returns the words of a text that say what it is about, without their endings.
func wordsOf(text string) []string {
	var words []string
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) }) {
		const common = " haft the an of to in on at it is are do does how what which can for and or my me with " +
			"its that this from be by if not as give get has have one all use name "
		if len(w) > 1 && !strings.Contains(common, " "+w+" ") {
			words = append(words, wordStem(w))
		}
	}
	return words
}

// wordStem cuts the ending of a word, so that package, packages and packaged are one.
func wordStem(w string) string {
	for _, end := range []string{"ing", "als", "al", "ies", "es", "ed", "e", "s", "y"} {
		if rest, ok := strings.CutSuffix(w, end); ok && len(rest) > 2 {
			return rest
		}
	}
	return w
}
