package manifest

import "encoding/json"

// appendJSON writes the tree as JSON, the only form the decoder is given. It
// stops, with JSON cut short, soon after maxObjectBytes: aliases can make a
// small tree into very much text.
func (t *tree) appendJSON(b []byte) []byte {
	if len(b) > maxObjectBytes {
		return b
	}
	switch t.kind {
	case nullValue:
		return append(b, "null"...)
	case stringValue:
		return appendString(b, t.text)
	case mappingValue:
		b = append(b, '{')
		for i := range t.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, t.fields[i].name), ':')
			b = t.fields[i].value.appendJSON(b)
		}
		return append(b, '}')
	case listValue:
		b = append(b, '[')
		for i := range t.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = t.items[i].appendJSON(b)
		}
		return append(b, ']')
	}
	return append(b, t.text...)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '"' || s[i] == '\\' || s[i] >= 0x7f {
			quoted, _ := json.Marshal(s) // a string always marshals
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
