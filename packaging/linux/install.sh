#!/bin/sh
# Puts Inglenook into your home, or takes it out again. Nobody needs to be root.
#
#   ./install.sh                 into ~/.local
#   ./install.sh --prefix DIR    into DIR
#   ./install.sh --remove        takes out what it put there; models, chats and settings stay
#   ./install.sh --stage DIR     lays everything out in DIR for the prefix and installs nothing:
#                                for `nook update`, which swaps the files itself
set -eu

prefix=${HOME:?your home is not known: HOME is not set}/.local
remove=no
stage=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix)
            [ $# -ge 2 ] || { echo "install.sh: --prefix needs a folder" >&2; exit 2; }
            prefix=$2
            shift 2 ;;
        --stage)
            [ $# -ge 2 ] || { echo "install.sh: --stage needs a folder" >&2; exit 2; }
            stage=$2
            shift 2 ;;
        --remove) remove=yes; shift ;;
        --help | -h) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "install.sh: it does not know \`$1\`: try --help" >&2; exit 2 ;;
    esac
done
case $prefix in
    /*) ;;
    *) prefix=$(pwd)/$prefix ;;
esac

# Where files are written; what is in them speaks of the prefix.
root=${stage:-$prefix}
list=$root/share/doc/inglenook/installed.txt
tell_desktop() {
    # Menus notice by themselves a little later where this is not there.
    if command -v update-desktop-database >/dev/null 2>&1; then
        update-desktop-database -q "$prefix/share/applications" 2>/dev/null || true
    fi
}

# Takes out folders of the prefix that are empty, from this one on upwards.
take_out_empty() {
    folder=$1
    while [ "$folder" != . ] && rmdir "$prefix/$folder" 2>/dev/null; do
        folder=$(dirname "$folder")
    done
}

# Takes out every file that is named on standard input, and folders that are empty then.
take_out() {
    while IFS= read -r file; do
        case $file in
            '' | /* | *..*) continue ;;
        esac
        rm -f "$prefix/$file"
        take_out_empty "$(dirname "$file")"
    done
}

if [ "$remove" = yes ]; then
    if [ ! -f "$list" ]; then
        echo "install.sh: Inglenook was not put into $prefix (no $list)" >&2
        exit 1
    fi
    take_out <"$list"
    rm -f "$list"
    take_out_empty share/doc/inglenook
    # What updates left: the version before the last one.
    rm -rf "$prefix/lib/inglenook-update"
    take_out_empty lib
    tell_desktop
    # The desktop's own list of what is there, where nothing is there any more.
    if [ "$(ls -A "$prefix/share/applications" 2>/dev/null)" = mimeinfo.cache ]; then
        rm -f "$prefix/share/applications/mimeinfo.cache"
    fi
    take_out_empty share/applications
    echo "Inglenook is out of $prefix. Models, chats and settings stay; \`nook\` kept them in"
    echo "${XDG_DATA_HOME:-$HOME/.local/share}/inglenook unless you chose another folder."
    exit 0
fi

here=$(cd "$(dirname "$0")" && pwd)
[ -x "$here/bin/nook" ] || { echo "install.sh: it belongs beside the folders bin and share" >&2; exit 1; }
missing=$(for program in nook inglenook; do
    LC_ALL=C ldd "$here/bin/$program" 2>/dev/null | sed -n 's/^[[:space:]]*\(.*\) => not found.*/\1/p'
done | sort -u)

mkdir -p "$root/share/doc/inglenook"
(cd "$here" && find bin share -type f) | LC_ALL=C sort >"$list.new"
while IFS= read -r file; do
    mkdir -p "$root/$(dirname "$file")"
    # Under another name first: a program that runs cannot be written to.
    cp "$here/$file" "$root/$file.new"
    case $file in
        share/applications/*.desktop) sed -i "s|^Exec=inglenook|Exec=\"$prefix/bin/inglenook\"|" "$root/$file.new" ;;
        share/systemd/user/*.service) sed -i "s|/usr/bin/nook|\"$prefix/bin/nook\"|" "$root/$file.new" ;;
    esac
    mv -f "$root/$file.new" "$root/$file"
done <"$list.new"
if [ -n "$stage" ]; then
    mv -f "$list.new" "$list"
    exit 0
fi
# What an earlier version had and this one has not goes, once all of this one is there.
[ ! -f "$list" ] || LC_ALL=C comm -23 "$list" "$list.new" | take_out
mv -f "$list.new" "$list"
tell_desktop

echo "Inglenook is in $prefix. Start it from the menu, or with $prefix/bin/inglenook"
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "For \`nook\` in a terminal, put $prefix/bin into your PATH." ;;
esac
if [ -n "$missing" ]; then
    echo "The window needs libraries that this system does not have:" >&2
    echo "$missing" | sed 's/^/  /' >&2
    echo "On Debian and Ubuntu: sudo apt install libwebkit2gtk-4.1-0 libayatana-appindicator3-1" >&2
    echo "On Fedora: sudo dnf install webkit2gtk4.1 libayatana-appindicator-gtk3" >&2
fi
