// Mutate measures what the tests of a package notice. It makes one small change to the package at a time, runs the tests, and prints the
// changes that no test noticed. All changes are compiled into one test binary, and an environment variable selects one of them, so a
// change costs one run of the tests and no build. The binary is built through an overlay: the files on disk stay as they are.
//
//	go run scripts/mutate.go [-tests PACKAGES] [-run REGEXP] [-file NAMES] [-at NAME:LINE...] [-every N] FOLDER
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A mutant is one change of the source.
type mutant struct {
	file     string
	line     int
	old, new string
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

// selector is the file that each mutated package gets. Its import of os has a name that no package uses.
const selector = `package %s

import mutantos "os"

var mutantSelected = mutantos.Getenv("MUTANT")

func mutantIs(n string) bool { return mutantSelected == n }
`

func main() {
	tests := flag.String("tests", "", "packages whose tests run, separated by spaces (default: FOLDER itself)")
	run := flag.String("run", "", "run only the tests that match")
	only := flag.String("file", "", "change these files only, separated by spaces")
	at := flag.String("at", "", "try the mutants of these lines only, as printed, separated by spaces")
	every := flag.Int("every", 1, "try every Nth mutant only")
	jobs := flag.Int("jobs", 2, "test runs at the same time")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	m := runner{run: *run, tests: strings.Fields(*tests), jobs: *jobs, at: strings.Fields(*at), every: *every}
	if len(m.tests) == 0 {
		m.tests = []string{filepath.Clean(flag.Arg(0))}
	}
	if err := m.all(flag.Arg(0), strings.Fields(*only)); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// runner runs the tests on mutants.
type runner struct {
	tests    []string
	run      string
	jobs     int
	at       []string // names and lines of the mutants to try; empty: all
	every    int      // try every Nth mutant
	binaries []string
	timeout  time.Duration // of one test run; a mutant that exceeds it counts as killed
}

// all tries the mutants of a folder and prints the survivors and the score.
func (r *runner) all(folder string, only []string) error {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rw, err := load(folder, only)
	if err != nil {
		return err
	}
	if err := r.build(rw, folder, dir); err != nil {
		return err
	}
	start := time.Now()
	if out, killed := r.killed(""); killed {
		return fmt.Errorf("the tests fail without a mutant:\n%s", out)
	}
	r.timeout = 10*time.Second + 5*time.Since(start)
	wanted := func(i int) bool {
		m := rw.mutants[i]
		return i%r.every == 0 && !rw.invalid[i] && (len(r.at) == 0 || slices.Contains(r.at, fmt.Sprintf("%s:%d", m.file, m.line)))
	}
	survived := r.tryAll(len(rw.mutants), wanted)
	tried := 0
	for i, m := range rw.mutants {
		if !wanted(i) {
			continue
		}
		tried++
		if survived[i] {
			fmt.Printf("%s:%d: %s -> %s\n", m.file, m.line, m.old, m.new)
		}
	}
	killed := tried - len(survived)
	fmt.Printf("%s: %d of %d mutants killed (%.0f %%); %d did not compile\n", folder, killed, tried, 100*float64(killed)/float64(max(1, tried)),
		len(rw.invalid))
	return nil
}

// tryAll returns the mutants that no test noticed.
func (r *runner) tryAll(n int, wanted func(int) bool) map[int]bool {
	survived, mu := map[int]bool{}, sync.Mutex{}
	next, wg := make(chan int), sync.WaitGroup{}
	for range r.jobs {
		wg.Go(func() {
			for i := range next {
				if _, killed := r.killed(strconv.Itoa(i)); !killed {
					mu.Lock()
					survived[i] = true
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		if wanted(i) {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	return survived
}

// killed runs the tests with one mutant, and returns the output of the tests that failed.
func (r *runner) killed(mutant string) (string, bool) {
	for i, binary := range r.binaries {
		ctx, cancel := context.WithCancel(context.Background())
		if r.timeout > 0 {
			ctx, cancel = context.WithTimeout(context.Background(), r.timeout)
		}
		cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.run", r.run)
		cmd.Dir, cmd.Env = r.tests[i], append(os.Environ(), "MUTANT="+mutant)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a test that hangs is ended together with the processes it started
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			return string(out), true
		}
	}
	return "", false
}

var compileError = regexp.MustCompile(`(?m)(mutated-\d+\.go):(\d+):\d+: (.*)$`)

// build compiles the test binaries. It leaves out mutants that do not compile.
func (r *runner) build(rw *rewriter, folder, dir string) error {
	for range 10 {
		overlay, err := rw.write(folder, dir)
		if err != nil {
			return err
		}
		r.binaries = nil
		var failed []byte
		for i, test := range r.tests {
			binary := filepath.Join(dir, fmt.Sprintf("test-%d", i))
			args := []string{"test", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-c", "-o", binary, "./" + filepath.Clean(test)}
			if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
				failed = out
				break
			}
			r.binaries = append(r.binaries, binary)
		}
		if failed == nil {
			return nil
		}
		if !rw.drop(failed, dir) {
			return fmt.Errorf("build: %s", failed)
		}
	}
	return fmt.Errorf("mutants do not compile")
}

// rewriter writes the sources of a package with all of its mutants.
type rewriter struct {
	set     *token.FileSet
	files   []*ast.File
	sources map[*ast.File][]byte
	names   map[*ast.File]string
	changed map[*ast.File]bool // to mutate
	pkg     *types.Package
	info    *types.Info

	mutants []mutant
	number  map[string]int // by file, offset and new text
	invalid map[int]bool
}

// load parses and type-checks the package in folder.
func load(folder string, only []string) (*rewriter, error) {
	rw := &rewriter{set: token.NewFileSet(), sources: map[*ast.File][]byte{}, names: map[*ast.File]string{}, changed: map[*ast.File]bool{},
		number: map[string]int{}, invalid: map[int]bool{}}
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles", "./"+filepath.Clean(folder)).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	type listed struct {
		Dir, ImportPath, Export string
		GoFiles                 []string
	}
	exports, last := map[string]string{}, listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); err != nil {
			break
		}
		exports[p.ImportPath], last = p.Export, p
	}
	for _, name := range last.GoFiles {
		source, err := os.ReadFile(filepath.Join(last.Dir, name))
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(rw.set, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		rw.files = append(rw.files, file)
		rw.sources[file], rw.names[file] = source, filepath.Join(last.Dir, name)
		rw.changed[file] = len(only) == 0 || slices.Contains(only, name)
	}
	rw.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.ForCompiler(rw.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	rw.pkg, err = conf.Check(last.ImportPath, rw.set, rw.files, rw.info)
	return rw, err
}

// write writes the mutated files and the overlay, and returns the overlay's path.
func (rw *rewriter) write(folder, dir string) (string, error) {
	replaced := map[string]string{}
	for i, file := range rw.files {
		if !rw.changed[file] {
			continue
		}
		w := &fileWriter{rewriter: rw, file: file, source: rw.sources[file]}
		path := filepath.Join(dir, fmt.Sprintf("mutated-%d.go", i))
		if err := os.WriteFile(path, []byte(w.mutated()), 0o600); err != nil {
			return "", err
		}
		replaced[rw.names[file]] = path
	}
	path := filepath.Join(dir, "selector.go")
	if err := os.WriteFile(path, fmt.Appendf(nil, selector, rw.files[0].Name.Name), 0o600); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(filepath.Join(folder, "mutant_selector.go"))
	if err != nil {
		return "", err
	}
	replaced[abs] = path
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

var number = regexp.MustCompile(`mutantIs\("(\d+)"\)`)

// drop marks the mutants in the lines of compile errors as invalid. It reports whether it found any.
func (rw *rewriter) drop(out []byte, dir string) bool {
	before := len(rw.invalid)
	for _, e := range compileError.FindAllSubmatch(out, -1) {
		source, err := os.ReadFile(filepath.Join(dir, string(e[1])))
		if err != nil {
			continue
		}
		lines := strings.Split(string(source), "\n")
		line, _ := strconv.Atoi(string(e[2]))
		from := max(0, line-1)
		if strings.Contains(string(e[3]), "missing return") { // a changed break or panic in this function
			for from > 0 && !strings.HasPrefix(lines[from], "func ") {
				from--
			}
		}
		for _, l := range lines[from:min(line, len(lines))] {
			for _, m := range number.FindAllStringSubmatch(l, -1) {
				n, _ := strconv.Atoi(m[1])
				rw.invalid[n] = true
			}
		}
	}
	return len(rw.invalid) > before
}

// fileWriter writes one mutated file.
type fileWriter struct {
	*rewriter
	file   *ast.File
	source []byte
	loops  int // loops around the current statement, in its function
}

func (w *fileWriter) offset(at token.Pos) int { return w.set.Position(at).Offset }

func (w *fileWriter) original(n ast.Node) string {
	return string(w.source[w.offset(n.Pos()):w.offset(n.End())])
}

// mutated returns the source of the file with its mutants.
func (w *fileWriter) mutated() string {
	out := strings.Builder{}
	from := 0
	for _, d := range w.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok != token.VAR {
			continue
		}
		out.Write(w.source[from:w.offset(d.Pos())])
		out.WriteString(w.children(d))
		from = w.offset(d.End())
	}
	out.Write(w.source[from:])
	return out.String()
}

// is returns the condition that selects a mutant, or nothing if the mutant does not compile.
func (w *fileWriter) is(at token.Pos, old, replacement string) string {
	p := w.set.Position(at)
	key := fmt.Sprintf("%s:%d:%s", p.Filename, p.Offset, replacement)
	n, ok := w.number[key]
	if !ok {
		n = len(w.mutants)
		w.number[key] = n
		w.mutants = append(w.mutants, mutant{p.Filename, p.Line, old, replacement})
	}
	if w.invalid[n] {
		return ""
	}
	return fmt.Sprintf("mutantIs(%q)", strconv.Itoa(n))
}

// children returns the text of a node with the mutants inside of it.
func (w *fileWriter) children(n ast.Node) string {
	out := strings.Builder{}
	from := w.offset(n.Pos())
	ast.Inspect(n, func(c ast.Node) bool {
		if c == nil || c == n {
			return true
		}
		text, ok := w.node(c, n)
		if !ok {
			return true
		}
		out.Write(w.source[from:w.offset(c.Pos())])
		out.WriteString(text)
		from = w.offset(c.End())
		return false
	})
	out.Write(w.source[from:w.offset(n.End())])
	return out.String()
}

// node returns the text of a node that has mutants or changes the context of those inside of it.
func (w *fileWriter) node(n, parent ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.GenDecl:
		if n.Tok == token.CONST || n.Tok == token.TYPE {
			return w.original(n), true
		}
	case *ast.ArrayType:
		return w.original(n), true
	case *ast.ForStmt, *ast.RangeStmt:
		w.loops++
		defer func() { w.loops-- }()
		return w.children(n), true
	case *ast.FuncLit:
		loops := w.loops
		w.loops = 0
		defer func() { w.loops = loops }()
		return w.children(n), true
	case *ast.BinaryExpr:
		return w.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			return w.choose("bool", w.children(n), w.is(n.OpPos, "!", ""), w.original(n.X)), true
		}
	case *ast.Ident:
		if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
			return w.choose("bool", n.Name, w.is(n.NamePos, n.Name, other), other), true
		}
	case *ast.IncDecStmt:
		other := swaps[n.Tok][0].String()
		return w.do(w.children(n), w.is(n.TokPos, n.Tok.String(), other), w.original(n.X)+other), true
	case *ast.AssignStmt:
		if other := swaps[n.Tok]; other != nil {
			changed := w.original(n.Lhs[0]) + other[0].String() + w.original(n.Rhs[0])
			return w.do(w.children(n), w.is(n.TokPos, n.Tok.String(), other[0].String()), changed), true
		}
	case *ast.BranchStmt:
		if n.Label == nil && swaps[n.Tok] != nil && w.loops > 0 {
			other := swaps[n.Tok][0].String()
			if is := w.is(n.TokPos, n.Tok.String(), other); is != "" {
				return "if " + is + " { " + other + " }; " + n.Tok.String(), true
			}
		}
	case *ast.ExprStmt:
		return w.removed(n, parent)
	}
	return "", false
}

// removed returns a call that a mutant leaves out.
func (w *fileWriter) removed(n *ast.ExprStmt, parent ast.Node) (string, bool) {
	if u, ok := n.X.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		return "", false
	}
	is := w.is(n.Pos(), w.original(n), "")
	if is == "" {
		return "", false
	}
	return "if !" + is + " { " + w.children(n) + " }", true
}

// binary returns an expression with its operator exchanged by mutants.
func (w *fileWriter) binary(n *ast.BinaryExpr) (string, bool) {
	tv := w.info.Types[n]
	if swaps[n.Op] == nil || tv.Value != nil || tv.Type == nil {
		return "", false
	}
	kind := "bool"
	if b, ok := tv.Type.Underlying().(*types.Basic); !ok || b.Info()&types.IsString != 0 {
		return "", false
	} else if b.Kind() != types.Bool && b.Kind() != types.UntypedBool {
		kind = types.TypeString(tv.Type, func(p *types.Package) string {
			if p == w.pkg {
				return ""
			}
			return p.Name()
		})
	}
	var choices []string
	for _, other := range swaps[n.Op] {
		changed := string(w.source[w.offset(n.Pos()):w.offset(n.OpPos)]) + other.String() +
			string(w.source[w.offset(n.OpPos)+len(n.Op.String()):w.offset(n.End())])
		choices = append(choices, w.is(n.OpPos, n.Op.String(), other.String()), changed)
	}
	return w.choose(kind, w.children(n), choices...), true
}

// choose returns an expression that is text, or one of the choices (pairs of a condition and an expression).
func (w *fileWriter) choose(kind, text string, choices ...string) string {
	out := strings.Builder{}
	for i := 0; i < len(choices); i += 2 {
		if choices[i] != "" {
			out.WriteString("if " + choices[i] + " { return " + choices[i+1] + " }; ")
		}
	}
	if out.Len() == 0 {
		return text
	}
	return "func() " + kind + " { " + out.String() + "return " + text + " }()"
}

// do returns a statement that does text, or changed for a mutant.
func (w *fileWriter) do(text, is, changed string) string {
	if is == "" {
		return text
	}
	return "func() { if " + is + " { " + changed + " } else { " + text + " } }()"
}
