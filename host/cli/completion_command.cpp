// The scripts hold nothing of the commands: they ask `gantry __complete WORD…`, which answers with a
// candidate a line, "WORD<tab>DESCRIPTION", and ":files EXTENSION…" where files may stand. So what they offer
// is what the installed program takes.
#include <CLI/CLI.hpp>

#include "host/cli/commands.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  source <(gantry completion bash)                                       this shell
  gantry completion bash > ~/.local/share/bash-completion/completions/gantry
  gantry completion zsh > ~/.zfunc/_gantry                               with ~/.zfunc in fpath
  gantry completion fish > ~/.config/fish/completions/gantry.fish
An installed gantry has brought them along.)";

constexpr const char* kBash = R"script(# Completion of gantry's command line for bash.
_gantry() {
  # bash splits words at ':' and '=' too; gantry's own words go on there.
  local -a words=()
  local i token joined='' line file
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    token=${COMP_WORDS[i]}
    if [[ ${#words[@]} -gt 0 && ($token == [:=] || -n $joined) ]]; then
      words[${#words[@]} - 1]+=$token
    else
      words+=("$token")
    fi
    joined=''
    [[ $token == [:=] ]] && joined=1
  done
  local current='' before=''
  [[ ${#words[@]} -gt 0 ]] && current=${words[${#words[@]} - 1]}
  [[ $current == *[:=]* ]] && before=${current%"${current##*[:=]}"}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == ':files'* ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r file; do
        if [[ -d $file || ${line#:files } == '' || " ${line#:files } " == *" ${file##*.} "* ]]; then
          COMPREPLY+=("$file")
        fi
      done < <(compgen -f -- "${current#"$before"}")
    else
      line=${line%%$'\t'*}
      COMPREPLY+=("${line#"$before"}")
    fi
  done < <("${COMP_WORDS[0]/#~\//$HOME/}" __complete "${words[@]}" 2>/dev/null)
}
complete -F _gantry gantry
)script";

constexpr const char* kZsh = R"script(#compdef gantry
# Completion of gantry's command line for zsh.
_gantry() {
  local -a lines candidates extensions
  local line
  lines=("${(@f)$("${(Q)words[1]/#\~\//$HOME/}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "${lines[@]}"; do
    if [[ $line == :files* ]]; then
      extensions=(${=line#:files})
      if (( ${#extensions} )); then
        _files -g "*.(${(j:|:)extensions})(-.)"
      else
        _files
      fi
    elif [[ -n $line ]]; then
      candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done
  (( ${#candidates} )) && _describe gantry candidates
}
if [[ ${funcstack[1]} == _gantry ]]; then
  _gantry "$@"
else
  compdef _gantry gantry
fi
)script";

constexpr const char* kFish = R"script(# Completion of gantry's command line for fish.
function __gantry_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    for line in ($before[1] __complete $before[2..-1] "$current" 2>/dev/null)
        if string match -q ':files*' -- $line
            set -l extensions (string match -ar '\S+' -- (string replace ':files' '' -- $line))
            for path in (__fish_complete_path "$current")
                set -l name (string split \t -- $path)[1]
                if test (count $extensions) -eq 0
                    or string match -q '*/' -- $name
                    or contains -- (string split . -- $name)[-1] $extensions
                    echo $path
                end
            end
        else
            echo $line
        end
    end
end
complete -c gantry -f -a '(__gantry_complete)'
)script";

const char* script_for(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

}  // namespace

void add_completion_command(CLI::App& app, Invocation& invocation) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print the script that completes gantry's command line");
  command->add_option("SHELL", *shell, "Whose script")
      ->type_name("bash|zsh|fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  command->footer(kExamples);
  command->callback([shell, &invocation] {
    invocation.action = [shell] {
      print_out(script_for(*shell));
      return 0;
    };
  });
}

}  // namespace gantry::cli
