package manifest

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// file is the text of one manifest file and the name people know it by.
type file struct {
	name string
	data []byte
}

// chunk is the text of one document, or of a few that only "..." separates.
// Chunks are parsed apart, so that a syntax error ends one document only.
type chunk struct {
	text       []byte
	lineOffset int // lines of the file before it
}

// document is the value of one YAML document, and what is wrong with parts of it.
type document struct {
	root   tree
	faults []fault
}

// parse calls each with the documents of every chunk of a file that could be read, and
// returns the faults of the others. Null documents, as between two "---" lines, count
// for nothing.
func (f file) parse(each func(chunk, []document)) (faults []fault) {
	data := bytes.TrimPrefix(f.data, []byte("\xef\xbb\xbf"))
	if at, ok := firstInvalid(data); ok {
		return []fault{{at: at, message: "not UTF-8 text; save the file as UTF-8"}}
	}
	if bytes.Contains(data, []byte("%YAML")) {
		data = versionLine.ReplaceAllLiteral(data, []byte("# YAML "))
	}
	found := 0
	for _, c := range split(data) {
		docs, f := c.parse()
		faults = append(faults, f...)
		found += len(docs)
		each(c, docs)
	}
	if found == 0 && len(faults) == 0 {
		faults = []fault{{at: place{1, 1}, message: "no object in this file; write one, or delete the file"}}
	}
	return faults
}

// firstInvalid finds the first byte that is not UTF-8, or is NUL.
func firstInvalid(data []byte) (place, bool) {
	at := bytes.IndexByte(data, 0)
	if at < 0 {
		if utf8.Valid(data) {
			return place{}, false
		}
		for at = 0; ; {
			r, size := utf8.DecodeRune(data[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
	}
	line := bytes.Count(data[:at], []byte("\n")) + 1
	column := at - bytes.LastIndexByte(data[:at], '\n')
	return place{int32(line), int32(column)}, true
}

// split cuts a file at the lines that begin a document. YAML allows "---" at
// the start of a line nowhere else, not even in a block or quoted scalar.
func split(data []byte) []chunk {
	var chunks []chunk
	start, startLine, line := 0, 0, 0
	for at := 0; at < len(data); line++ {
		end := len(data)
		if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		if beginsDocument(data[at:end]) && at > start {
			chunks = append(chunks, chunk{data[start:at], startLine})
			start, startLine = at, line
		}
		at = end
	}
	return append(chunks, chunk{data[start:], startLine})
}

// versionLine is the directive that the parser refuses for any version but 1.1,
// though what manifests use of YAML is the same in all.
var versionLine = regexp.MustCompile(`(?m)^%YAML \d`)

func beginsDocument(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

func (c chunk) parse() (docs []document, faults []fault) {
	dec := yaml.NewDecoder(bytes.NewReader(c.text))
	for {
		var node yaml.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			return docs, faults
		}
		if err != nil {
			return docs, append(faults, c.syntaxFault(err))
		}
		root, f := expand(&node, c.lineOffset)
		if len(f) > 0 || root.kind != nullValue {
			docs = append(docs, document{root, f})
		}
	}
}

// locatable is the longest document, in lines, whose breaking line is searched.
const locatable = 300

var yamlPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// syntaxFault places a syntax error. The parser names the line where the
// enclosing value began, or none; what people need is the first line that
// cannot be read whatever follows it.
func (c chunk) syntaxFault(err error) fault {
	lines := bytes.SplitAfter(c.text, []byte("\n"))
	bad := reportedLine(err)
	if len(lines) <= locatable {
		bad = breakingLine(lines)
	}
	bad = max(1, min(bad, len(lines)))
	text := lines[bad-1]
	column := len(text) - len(bytes.TrimLeft(text, " ")) + 1
	message := "bad YAML: " + yamlPrefix.ReplaceAllString(err.Error(), "")
	if strings.Contains(message, "unexpected end of stream") {
		message = "bad YAML: a quote that opens here is never closed"
	}
	if indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]; bytes.IndexByte(indent, '\t') >= 0 {
		message = "bad YAML: this line is indented with a tab; YAML takes spaces only"
	}
	return fault{at: place{int32(bad + c.lineOffset), int32(column)}, message: message}
}

func reportedLine(err error) (line int) {
	digits := strings.TrimPrefix(yamlPrefix.FindString(err.Error()), "yaml: line ")
	for _, d := range digits {
		if d < '0' || d > '9' {
			break
		}
		line = line*10 + int(d-'0')
	}
	return line
}

// breakingLine returns the number of the line after the longest run of first
// lines that is YAML by itself. Searched from the end, because an open quote or
// bracket makes shorter runs fail too.
func breakingLine(lines [][]byte) int {
	for n := len(lines) - 1; n > 0; n-- {
		var node yaml.Node
		if yaml.Unmarshal(bytes.Join(lines[:n], nil), &node) == nil {
			return n + 1
		}
	}
	return 1
}
