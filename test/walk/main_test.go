package walk

import (
	"os"
	"testing"

	"github.com/toyproxy/toyproxy/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
