package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/toyproxy/toyproxy"

// source is the code of one folder, without its tests.
type source struct {
	dir   string
	fset  *token.FileSet
	files map[string]*ast.File // by file name
}

// add parses a file into the source.
func (s *source) add(name string, text []byte) error {
	if s.fset == nil {
		s.fset, s.files = token.NewFileSet(), map[string]*ast.File{}
	}
	f, err := parser.ParseFile(s.fset, path.Join(s.dir, name), text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("source file: %w", err)
	}
	s.files[name] = f
	return nil
}

func (s *source) at(n ast.Node) token.Position { return s.fset.Position(n.Pos()) }

// importFaults lists the arrows that the rule does not have.
func importFaults(s *source, r rule) []string {
	var faults []string
	allowed := strings.Fields(r.imports)
	for _, f := range s.files {
		for _, spec := range f.Imports {
			p := importPath(spec)
			inside, ours := strings.CutPrefix(p, module+"/")
			if ours && r.imports != "*" && !slices.Contains(allowed, inside) {
				faults = append(faults, fmt.Sprintf("%s: %s may not import %s: its row in the table allows only [%s]", s.at(spec), r.dir, inside, r.imports))
			}
			if isKubernetes(p) && !r.k8s {
				faults = append(faults, fmt.Sprintf("%s: %s may not know Kubernetes, and imports %s", s.at(spec), r.dir, p))
			}
		}
	}
	return faults
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser took it
	return p
}

func isKubernetes(p string) bool {
	return strings.HasPrefix(p, "k8s.io/") || strings.HasPrefix(p, "sigs.k8s.io/")
}

// purityFaults lists I/O outside the files that may do it.
func purityFaults(s *source, r rule) []string {
	var faults []string
	for name, f := range s.files {
		if r.io == "*" || slices.Contains(strings.Fields(r.io), name) {
			continue
		}
		where := "in no file"
		if r.io != "" {
			where = "only in " + r.io
		}
		for _, spec := range f.Imports {
			if p := importPath(spec); slices.Contains(impure, p) && !constantsOnly(f, spec) {
				faults = append(faults, fmt.Sprintf("%s: %s does I/O %s, and imports %s", s.at(spec), r.dir, where, p))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && slices.Contains(impureCalls, selector(call.Fun)) {
				faults = append(faults, fmt.Sprintf("%s: %s does I/O %s, and calls %s", s.at(n), r.dir, where, selector(call.Fun)))
			}
			return true
		})
	}
	return faults
}

// constantsOnly tells whether a file takes nothing but values and types from
// an import: no calls. A file may speak of unix.IPPROTO_TCP or an *ipvs.Service
// and still be pure. (A method of a value that was handed in is not seen.)
func constantsOnly(f *ast.File, spec *ast.ImportSpec) bool {
	name := path.Base(importPath(spec))
	if spec.Name != nil {
		name = spec.Name.Name
	}
	calls := false
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && strings.HasPrefix(selector(call.Fun), name+".") {
			calls = true
		}
		return !calls
	})
	return !calls
}

// selector is "time.Now" for that expression, "" for other kinds.
func selector(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// wordFaults lists what a reader misses: the package comment, telling names.
func wordFaults(s *source) []string {
	var faults []string
	documented := false
	for name, f := range s.files {
		documented = documented || f.Doc != nil
		for _, word := range []string{f.Name.Name, strings.TrimSuffix(name, ".go")} {
			if slices.Contains(vagueNames, word) {
				faults = append(faults, fmt.Sprintf("%s/%s: the name %q tells nothing", s.dir, name, word))
			}
		}
	}
	if !documented {
		faults = append(faults, s.dir+": no package comment: what it is, what it is not, where it stands")
	}
	return faults
}

// shapeFaults lists what is too long, and init functions.
func shapeFaults(s *source) []string {
	var faults []string
	for name, f := range s.files {
		if n := s.fset.File(f.Pos()).LineCount(); n > maxFile {
			faults = append(faults, fmt.Sprintf("%s/%s: %d lines, at most %d", s.dir, name, n, maxFile))
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.fset.Position(fn.End()).Line - s.at(fn).Line + 1; n > maxFunction {
				faults = append(faults, fmt.Sprintf("%s: function %s has %d lines, at most %d", s.at(fn), fn.Name.Name, n, maxFunction))
			}
			if fn.Name.Name == "init" && fn.Recv == nil {
				faults = append(faults, fmt.Sprintf("%s: an init function: work that nobody called", s.at(fn)))
			}
		}
	}
	return faults
}
