<?php echo "a script of this folder";
