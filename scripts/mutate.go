// Mutate measures what the tests of a package notice. It makes one small change to the package at a time, runs the tests, and prints the
// changes that no test noticed. A change is compiled through an overlay, so the files on disk stay as they are.
//
//	go run scripts/mutate.go [-tests PACKAGES] [-run REGEXP] [-file NAME] [-every N] FOLDER
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A mutant replaces the source text from start to end.
type mutant struct {
	file       string
	start, end int // offsets in bytes
	line       int
	old, new   string
}

// swaps are the operators and words to exchange.
var swaps = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR}, token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.AND: {token.OR}, token.OR: {token.AND}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.INC: {token.DEC}, token.DEC: {token.INC}, token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.BREAK: {token.CONTINUE}, token.CONTINUE: {token.BREAK},
}

func main() {
	tests := flag.String("tests", "", "packages whose tests run, separated by spaces (default: FOLDER itself)")
	run := flag.String("run", "", "run only the tests that match")
	only := flag.String("file", "", "change this file only")
	every := flag.Int("every", 1, "try every Nth mutant only")
	timeout := flag.Duration("timeout", 2*time.Minute, "of one test run; a mutant that exceeds it counts as killed")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	m := runner{run: *run, timeout: *timeout, tests: strings.Fields(*tests)}
	if len(m.tests) == 0 {
		m.tests = []string{"./" + filepath.Clean(flag.Arg(0))}
	}
	if err := m.all(flag.Arg(0), *only, *every); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// runner runs the tests on mutants.
type runner struct {
	tests   []string
	run     string
	timeout time.Duration
}

// all tries the mutants of a folder and prints the survivors and the score.
func (r runner) all(folder, only string, every int) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	var mutants []mutant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || only != "" && filepath.Base(file) != only {
			continue
		}
		found, err := mutantsOf(file)
		if err != nil {
			return err
		}
		mutants = append(mutants, found...)
	}
	if out, err := r.test(nil); err != nil {
		return fmt.Errorf("the tests fail without a mutant: %w\n%s", err, out)
	}
	killed, survived, invalid := 0, 0, 0
	for i := 0; i < len(mutants); i += every {
		switch m := mutants[i]; r.try(m) {
		case "killed":
			killed++
		case "invalid":
			invalid++
		default:
			survived++
			fmt.Printf("%s:%d: %s -> %s\n", m.file, m.line, m.old, m.new)
		}
	}
	fmt.Printf("%s: %d of %d mutants killed (%.0f %%); %d did not compile\n", folder, killed, killed+survived,
		100*float64(killed)/float64(max(1, killed+survived)), invalid)
	return nil
}

func (r runner) try(m mutant) string {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "invalid"
	}
	mutated, err := os.CreateTemp("", "mutant-*.go")
	if err != nil {
		return "invalid"
	}
	defer os.Remove(mutated.Name())
	_, _ = mutated.Write(append(append(append([]byte{}, source[:m.start]...), m.new...), source[m.end:]...))
	_ = mutated.Close()
	path, _ := filepath.Abs(m.file)
	out, err := r.test(map[string]string{path: mutated.Name()})
	switch {
	case err == nil:
		return "survived"
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return "invalid"
	}
	return "killed"
}

// test runs the tests with the files replaced.
func (r runner) test(replaced map[string]string) ([]byte, error) {
	overlay, err := os.CreateTemp("", "overlay-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(overlay.Name())
	err = json.NewEncoder(overlay).Encode(map[string]any{"Replace": replaced})
	if err != nil {
		return nil, err
	}
	_ = overlay.Close()
	args := []string{"test", "-vet=off", "-failfast", "-timeout", r.timeout.String(), "-overlay", overlay.Name(), "-run", r.run}
	return exec.Command("go", append(args, r.tests...)...).CombinedOutput()
}

// mutantsOf returns the mutants of a file: exchanged operators and words, and removed calls.
func mutantsOf(file string) ([]mutant, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []mutant
	add := func(at token.Pos, old, replacement string) {
		p := set.Position(at)
		all = append(all, mutant{file, p.Offset, p.Offset + len(old), p.Line, old, replacement})
	}
	swap := func(at token.Pos, op token.Token) {
		for _, other := range swaps[op] {
			add(at, op.String(), other.String())
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			swap(n.OpPos, n.Op)
		case *ast.IncDecStmt:
			swap(n.TokPos, n.Tok)
		case *ast.AssignStmt:
			swap(n.TokPos, n.Tok)
		case *ast.BranchStmt:
			if n.Label == nil {
				swap(n.TokPos, n.Tok)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add(n.OpPos, "!", "")
			}
		case *ast.Ident:
			switch n.Name {
			case "true":
				add(n.NamePos, "true", "false")
			case "false":
				add(n.NamePos, "false", "true")
			}
		case *ast.ExprStmt:
			from, to := set.Position(n.Pos()).Offset, set.Position(n.End()).Offset
			add(n.Pos(), string(source[from:to]), "")
		}
		return true
	})
	return all, nil
}
