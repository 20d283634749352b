// Command layout writes what docs/contributors/layout.md takes from the imports of the code: the
// drawings, and the users of each folder. It fails if a folder has no row, or a row no folder. Run
// it in the root of the repository; make generate does.
package main

import (
	"cmp"
	"log"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	page  = "docs/contributors/layout.md"
	house = "The house" // the section of the whole; the others have the name of a module
	code  = "{{.ImportPath}}\n{{range .Imports}}{{$.ImportPath}} {{.}}\n{{end}}"
	tests = "{{range .TestImports}}{{$.ImportPath}} {{.}}\n{{end}}{{range .XTestImports}}{{$.ImportPath}} {{.}}\n{{end}}"
)

var (
	module  = regexp.MustCompile(`^(services/\w+|cmd/\w+|pkg)(?:/cmd/\w+|(?:/internal)?/(.+))?$`)
	drawing = regexp.MustCompile("(?s)```text\n.*?```\n")
	row     = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|[^|]*\\|$")
)

// A room is a folder with a row: its section, and its name there.
type room struct{ section, name string }

// An edge says that a room imports another, or the zero room, which stands for other projects.
type edge struct{ user, used room }

func main() {
	log.SetFlags(0)
	product := edges(code, "-deps", "./cmd/opportunity")
	shipped := append(edges(code, "./sdk/..."), product...)
	all := append(edges(code, "work"), edges(tests, "work")...)
	missing := map[room]bool{}
	for _, e := range all {
		missing[e.user] = true
	}
	for name := range strings.Lines(run("git", "ls-tree", "-d", "--name-only", "HEAD")) {
		name = strings.TrimSpace(name)
		if name[0] != '.' && !slices.Contains([]string{"cmd", "pkg", "services"}, name) {
			missing[room{house, name}] = true
		}
	}
	source, err := os.ReadFile(page)
	check(err)
	sections := strings.Split(string(source), "\n## ")
	for i, section := range sections {
		title, _, _ := strings.Cut(section, "\n")
		if title = strings.Trim(title, "`"); title != house && !module.MatchString(title) {
			continue
		}
		section = drawing.ReplaceAllLiteralString(section, "```text\n"+draw(title, product)+"```\n")
		sections[i] = row.ReplaceAllStringFunc(section, func(line string) string {
			cells := row.FindStringSubmatch(line)
			r := room{title, cells[1]}
			if !missing[r] {
				log.Fatalf("%s: remove the row of %s below %q: it has no folder, or another row", page, r.name, title)
			}
			delete(missing, r)
			users := cmp.Or(usersOf(r, shipped, false), usersOf(r, all, true), "nothing")
			return "| `" + r.name + "` | " + cells[2] + " | " + users + " |"
		})
	}
	for r := range missing {
		log.Fatalf("%s: add a row for %s below %q: what it is, what may be changed there and what not", page, r.name,
			r.section)
	}
	check(os.WriteFile(page, []byte(strings.Join(sections, "\n## ")), 0o600))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func run(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		log.Fatalf("running %s %s: %v", name, args[0], err)
	}
	return string(out)
}

// edges returns what go list prints: in each line a package, and one that it imports.
func edges(args ...string) (edges []edge) {
	for line := range strings.Lines(run("go", append([]string{"list", "-f"}, args...)...)) {
		user, used, _ := strings.Cut(strings.TrimSpace(line), " ")
		if e := (edge{roomOf(user), roomOf(used)}); e.user != e.used && e.user != (room{}) {
			edges = append(edges, e)
		}
	}
	return edges
}

func roomOf(importPath string) room {
	folder, ours := strings.CutPrefix(importPath, "opportunity.internal/")
	top, _, _ := strings.Cut(folder, "/")
	match := module.FindStringSubmatch(folder)
	switch {
	case !ours:
		return room{}
	case match == nil:
		return room{house, top}
	case match[2] == "":
		return room{match[1], path.Base(match[1])}
	}
	return room{match[1], match[2]}
}

// draw returns the rooms of a section by floors, the highest first: each is above all that it
// imports. The house has one room for each module.
func draw(section string, edges []edge) (drawing string) {
	name := func(r room) string {
		switch section {
		case r.section:
			return r.name
		case house:
			return r.section
		}
		return ""
	}
	floor := map[string]int{} // by name, from 1
	for rising := true; rising; {
		rising = false
		for _, e := range edges {
			user, used := name(e.user), name(e.used)
			if user != "" && user != used && floor[user] <= floor[used] {
				floor[user], rising = floor[used]+1, true
			}
		}
	}
	for level := 1; ; level++ {
		var names []string
		for name, at := range floor {
			if at == level {
				names = append(names, name)
			}
		}
		if names == nil {
			return drawing
		}
		slices.Sort(names)
		drawing = strings.Join(names, "   ") + "\n" + drawing
	}
}

// usersOf returns the rooms that import r as the section of r names them, or only their modules if
// tests do, or "".
func usersOf(r room, edges []edge, tests bool) string {
	var names []string
	for _, e := range edges {
		switch {
		case e.used != r:
		case e.user.section == house, e.user.section == r.section && r.section != "pkg" && !tests:
			names = append(names, e.user.name)
		case e.user.section == "pkg" && !tests:
			names = append(names, "pkg/"+e.user.name)
		default:
			names = append(names, path.Base(e.user.section))
		}
	}
	slices.Sort(names)
	users := strings.Join(slices.Compact(names), ", ")
	users = strings.Replace(users, "authquota, billing, catalog, gateway, history", "every service", 1)
	if tests && users != "" {
		return "tests of " + users
	}
	return users
}
